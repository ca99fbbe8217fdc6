"""Transformers of preprocessing: scalers, encoders and an imputer."""
