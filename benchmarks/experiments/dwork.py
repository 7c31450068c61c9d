"""Figures 2 and 3 of Dwork et al. 2017: variable selection on independent records.

An analyst keeps the attributes whose correlation with the label agrees between training data and
holdout, lets the best k of them vote, and asks for the accuracy of the vote. With the standard
holdout both queries see the raw holdout; with the reusable one both go through Thresholdout
(T = 0.04, sigma = 0.01, Gaussian noise). Figure 2: no attribute knows the label. Figure 3: twenty
attributes are shifted by 0.06.
"""

import sys

from benchmarks.experiments._cli import Figure, main, parser
from benchmarks.experiments._samples import dwork_population

FIGURES = {
    "2": Figure("dwork-figure-2", "Dwork et al., Fig. 2: no signal", 0),
    "3": Figure("dwork-figure-3", "Dwork et al., Fig. 3: 20 attributes shifted by 0.06", 20),
}

if __name__ == "__main__":
    options = parser(__doc__, FIGURES).parse_args()
    sys.exit(main(options, FIGURES, dwork_population, {}))
