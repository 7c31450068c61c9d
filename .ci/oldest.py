"""Print pip constraints that pin every run-time dependency to the oldest version admitted."""

import configparser
import re
from pathlib import Path

config = configparser.ConfigParser()
config.read(Path(__file__).resolve().parents[1] / "setup.cfg")
for requirement in config["options"]["install_requires"].split():
    name, version = re.fullmatch(r"([\w-]+)>=([\d.]+)", requirement).groups()
    print(f"{name}~={version}.0" if version.count(".") == 1 else f"{name}=={version}")
