"""The command that writes the generated parts of the documentation, or checks that they are fresh."""

import sys

from eventformers.reference.pages import main

sys.exit(main())
