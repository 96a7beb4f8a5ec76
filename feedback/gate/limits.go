package gate

import (
	"bytes"
	"errors"
	"io"
	"time"

	"gopkg.in/yaml.v3"
)

// FewSamples is where a profile gets thin. With 1000 samples, a procedure that
// takes 1 % of the time has 10, and its share is known within a third.
const FewSamples = 1000

// Limits are the thresholds of gates. Shares are of 1.
type Limits struct {
	MinSamples    uint64        `yaml:"min-samples"`
	MinUsed       float64       `yaml:"min-used"`
	MinOwn        float64       `yaml:"min-own"`
	MinKnown      float64       `yaml:"min-known"`
	MaxOtherID    float64       `yaml:"max-other-id"`
	MaxAge        time.Duration `yaml:"max-age"`
	MinProcedures float64       `yaml:"min-procedures"`
	MinLines      float64       `yaml:"min-lines"`

	MinSource        float64 `yaml:"min-source"`
	MaxFilesGone     float64 `yaml:"max-files-gone"`
	MaxFunctionsGone float64 `yaml:"max-functions-gone"`
	MaxBeyond        float64 `yaml:"max-beyond"`
	MaxMoved         float64 `yaml:"max-moved"`
}

// Usual are the defaults; the help of command check explains each.
var Usual = Limits{
	MinSamples: FewSamples, MinUsed: 0.7, MinOwn: 0.3, MinKnown: 0.1, MaxOtherID: 0.05, MaxAge: 30 * 24 * time.Hour,
	MinProcedures: 0.9, MinLines: 0.7,
	MinSource: 0.1, MaxFilesGone: 0.05, MaxFunctionsGone: 0.1, MaxBeyond: 0.2, MaxMoved: 1,
}

// ParseLimits reads limits from YAML: those below the key check, others as in Usual. Keys of
// check that are no limits, other keys beside it, and values of another type are errors, which
// say the line. min-shape, which min-known was called, is read, too.
func ParseLimits(b []byte) (Limits, error) {
	var doc struct {
		Check struct {
			Limits   `yaml:",inline"`
			MinShape *float64 `yaml:"min-shape"` // what min-known was called
		} `yaml:"check"`
	}
	doc.Check.Limits = Usual
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return Limits{}, err
	}
	if doc.Check.MinShape != nil {
		doc.Check.MinKnown = *doc.Check.MinShape
	}
	return doc.Check.Limits, nil
}
