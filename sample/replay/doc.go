// Package replay runs long walks through small models of branch predictors and caches, and counts
// by place how often each branch is predicted and each access hits.
//
// It refuses to say what a walk cannot tell: what a cache holds from before the walk, what is beyond
// the second one, whether pages are huge, what a prefetcher has fetched. Such accesses are
// neither near nor far (sample.Replayed). A predictor learns over all walks, and what is counted of
// a branch comes after it had time to learn it.
//
// Its product goes into recordings; package explain makes evidence of it.
package replay
