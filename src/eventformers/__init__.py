"""eventformers: event representation learning, native to the Hugging Face Hub.

After this import, every Auto class of transformers loads the models of this package without
`trust_remote_code`. The names in `__init__.pyi` load at their first use.
"""

import lazy_loader

from eventformers.registration import register

__version__ = "0.1.0"

__getattr__, __dir__, _names = lazy_loader.attach_stub(__name__, __file__)
__all__ = sorted([*_names, "__version__"])

register()
