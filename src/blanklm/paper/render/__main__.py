import sys

from blanklm.paper.render import main

sys.exit(main())
