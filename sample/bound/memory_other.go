//go:build !unix

package bound

import "math"

func addressSpace() int64 { return math.MaxInt64 }
