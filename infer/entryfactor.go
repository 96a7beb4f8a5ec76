package infer

// FewTotal is the number of samples below which a recording tells of few procedures how often they run.
const FewTotal = 2000

// EntryFactor is what the executions of a procedure with so many samples, in a recording of so many in all, may be off by, up or
// down, with 90 % confidence, where nothing but time was sampled: what TimeFactor is for all together, and what it has for itself. A
// procedure that no sample is in runs as often as what calls it, which may be once or in the innermost loop; of one with two samples,
// code that ran seldom and waited long looks as code that ran often. Over the programs of testdata/sets, thinned to 200 samples and more:
// see TestEntryFactor and README.md.
func EntryFactor(samples, total uint64) float64 {
	thin := total < FewTotal
	switch {
	case samples < 3 && thin:
		return 2000
	case samples < 3:
		return 500
	case thin:
		return 200
	case samples < fewSamples:
		return 80
	}
	return TimeFactor
}
