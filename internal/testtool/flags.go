package testtool

import "flag"

// Update is -update: golden files are written, not only compared.
var Update = flag.Bool("update", false, "rewrite the golden files")
