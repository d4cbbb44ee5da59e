"""eventformers: event representation learning, native to the Hugging Face Hub."""
