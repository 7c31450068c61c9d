"""What training-side scores and states say about dependence; nothing here sees a holdout."""
