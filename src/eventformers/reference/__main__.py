"""Write the generated parts of the documentation, or check that they are up to date."""

import sys

from eventformers.reference.pages import main

sys.exit(main())
