"""Accounting of answers: alpha spending, predictive code, noise calibration and certificate.

Accounting reads neither data nor files.
"""

from sklearn_bdp.accounting.certificate import Certificate
from sklearn_bdp.accounting.spending import code_length

__all__ = ["Certificate", "code_length"]
