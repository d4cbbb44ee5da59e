"""Loading models, encoders and tokenizers, with checks of their files."""
