package gate

import "time"

// FewSamples is where a profile gets thin. With 1000 samples, a procedure that
// takes 1 % of the time has 10, and its share is known within a third.
const FewSamples = 1000

// Limits are the thresholds of gates. Shares are of 1.
type Limits struct {
	MinSamples    uint64
	MinUsed       float64
	MinOwn        float64
	MinKnown      float64
	MaxOtherID    float64
	MaxAge        time.Duration
	MinProcedures float64
	MinLines      float64

	MinSource        float64
	MaxFilesGone     float64
	MaxFunctionsGone float64
	MaxBeyond        float64
	MaxMoved         float64
}

// Usual are the defaults; flags of command check explain each.
var Usual = Limits{
	MinSamples: FewSamples, MinUsed: 0.7, MinOwn: 0.3, MinKnown: 0.1, MaxOtherID: 0.05, MaxAge: 30 * 24 * time.Hour,
	MinProcedures: 0.9, MinLines: 0.7,
	MinSource: 0.1, MaxFilesGone: 0.05, MaxFunctionsGone: 0.1, MaxBeyond: 0.2, MaxMoved: 1,
}
