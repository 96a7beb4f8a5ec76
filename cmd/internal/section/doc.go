// Package section reads sections of a configuration of YAML: maps whose keys are known, lists, plain values. An error names the
// line, and what is wanted there; keys that nobody knows, keys given twice and merges without end are refused. What the
// keys mean is for packages refresh and optimize to say.
package section
