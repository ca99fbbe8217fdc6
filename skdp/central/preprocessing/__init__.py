"""Transformers of preprocessing: scalers, encoders, an imputer and a selector of columns."""
