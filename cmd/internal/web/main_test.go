package web

import (
	"os"
	"testing"

	"backfeed/internal/testtool"
)

func TestMain(m *testing.M) { os.Exit(testtool.Browsers(m)) }
