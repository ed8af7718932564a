import sys

from tidemark_cli import main

sys.exit(main())
