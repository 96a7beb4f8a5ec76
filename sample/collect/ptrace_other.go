//go:build linux && !(amd64 || arm64)

package collect

import (
	"context"
	"errors"

	"backfeed/sample"
)

func recordTraced(context.Context, Options, []Attempt, *Unavailable) (*sample.Recording, *Stats, error) {
	return nil, nil, errors.New("ptrace is not used on this processor")
}

func goFix(int) string { return "" }

func tracingInstead(_ Options, tried []Attempt, _ error) ([]Attempt, *Unavailable) { return tried, nil }
