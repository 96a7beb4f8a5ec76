package otlp

import (
	"unsafe"

	"backfeed/sample/bound"
)

// A node is a message that is read: those of opentelemetry/proto/profiles/v1development/profiles.proto,
// and what they use of common.proto and resource.proto, at version 1.11 of opentelemetry-proto.
type node interface {
	// field returns the name that JSON has for the field with a number, and where its value goes: to a pointer to
	// a uint64, an int64, an int32, a string or a list of integers, to a fixed64 or a list of these, to another node
	// or a table of nodes. skipped is a field that is known and not read; nil is none that is known.
	field(number int) (name string, to any)

	// fields is the highest number of a field.
	fields() int
}

// fixed64 is an integer of always 8 bytes.
type fixed64 uint64

// skipped is a field that is of no use here.
type skipped struct{}

// A table is a repeated message.
type table[T any, P interface {
	*T
	node
}] []T

// grower is a table of whatever messages.
type grower interface {
	// grow adds a message, if in has the memory for it.
	grow(in *bound.Input) (node, error)
}

func (t *table[T, P]) grow(in *bound.Input) (node, error) {
	var none T
	// Appending copies: what is held is twice as much for a while.
	if err := in.Hold(2 * int64(unsafe.Sizeof(none))); err != nil {
		return nil, err
	}
	*t = append(*t, none)
	return P(&(*t)[len(*t)-1]), nil
}

// profilesData is ProfilesData, and ExportProfilesServiceRequest, which has the same fields.
type profilesData struct {
	resources  table[resourceProfiles, *resourceProfiles]
	dictionary dictionary
}

func (m *profilesData) field(n int) (string, any) {
	switch n {
	case 1:
		return "resourceProfiles", &m.resources
	case 2:
		return "dictionary", &m.dictionary
	}
	return "", nil
}
func (m *profilesData) fields() int { return 2 }

type resourceProfiles struct {
	resource resource
	scopes   table[scopeProfiles, *scopeProfiles]
}

func (m *resourceProfiles) field(n int) (string, any) {
	switch n {
	case 1:
		return "resource", &m.resource
	case 2:
		return "scopeProfiles", &m.scopes
	case 3:
		return "schemaUrl", skipped{}
	}
	return "", nil
}
func (m *resourceProfiles) fields() int { return 3 }

type resource struct {
	attributes table[keyValue, *keyValue]
}

func (m *resource) field(n int) (string, any) {
	switch n {
	case 1:
		return "attributes", &m.attributes
	case 2:
		return "droppedAttributesCount", skipped{}
	case 3:
		return "entityRefs", skipped{}
	}
	return "", nil
}
func (m *resource) fields() int { return 3 }

type scopeProfiles struct {
	profiles table[profile, *profile]
}

func (m *scopeProfiles) field(n int) (string, any) {
	switch n {
	case 1:
		return "scope", skipped{}
	case 2:
		return "profiles", &m.profiles
	case 3:
		return "schemaUrl", skipped{}
	}
	return "", nil
}
func (m *scopeProfiles) fields() int { return 3 }

type profile struct {
	sampleType valueType
	samples    table[sampled, *sampled]
	time       fixed64 // of the collection, in ns since 1970
	duration   uint64
	periodType valueType
	period     int64
	dropped    uint64
	format     string // of the original payload
}

func (m *profile) field(n int) (string, any) {
	switch n {
	case 1:
		return "sampleType", &m.sampleType
	case 2:
		return "samples", &m.samples
	case 3:
		return "timeUnixNano", &m.time
	case 4:
		return "durationNano", &m.duration
	case 5:
		return "periodType", &m.periodType
	case 6:
		return "period", &m.period
	case 7:
		return "profileId", skipped{}
	case 8:
		return "droppedAttributesCount", &m.dropped
	case 9:
		return "originalPayloadFormat", &m.format
	case 10:
		return "originalPayload", skipped{}
	case 11:
		return "attributeIndices", skipped{}
	}
	return "", nil
}
func (m *profile) fields() int { return 11 }

type valueType struct{ typ, unit int32 }

func (m *valueType) field(n int) (string, any) {
	switch n {
	case 1:
		return "typeStrindex", &m.typ
	case 2:
		return "unitStrindex", &m.unit
	}
	return "", nil
}
func (m *valueType) fields() int { return 2 }

// sampled is Sample.
type sampled struct {
	stack  int32
	values []int64
	times  times
}

// times is how many timestamps there are: when each was is of no use here.
type times int

func (m *sampled) field(n int) (string, any) {
	switch n {
	case 1:
		return "stackIndex", &m.stack
	case 2:
		return "attributeIndices", skipped{}
	case 3:
		return "linkIndex", skipped{}
	case 4:
		return "values", &m.values
	case 5:
		return "timestampsUnixNano", &m.times
	}
	return "", nil
}
func (m *sampled) fields() int { return 5 }

// dictionary is ProfilesDictionary. Place 0 of each table stands for none.
type dictionary struct {
	mappings   table[mapping, *mapping]
	locations  table[location, *location]
	functions  table[function, *function]
	strings    []string
	attributes table[attribute, *attribute]
	stacks     table[stack, *stack]
}

func (m *dictionary) field(n int) (string, any) {
	switch n {
	case 1:
		return "mappingTable", &m.mappings
	case 2:
		return "locationTable", &m.locations
	case 3:
		return "functionTable", &m.functions
	case 4:
		return "linkTable", skipped{}
	case 5:
		return "stringTable", &m.strings
	case 6:
		return "attributeTable", &m.attributes
	case 7:
		return "stackTable", &m.stacks
	}
	return "", nil
}
func (m *dictionary) fields() int { return 7 }

type mapping struct {
	start, limit, offset uint64 // addresses, and bytes into the file
	file                 int32
	attributes           []int32
}

func (m *mapping) field(n int) (string, any) {
	switch n {
	case 1:
		return "memoryStart", &m.start
	case 2:
		return "memoryLimit", &m.limit
	case 3:
		return "fileOffset", &m.offset
	case 4:
		return "filenameStrindex", &m.file
	case 5:
		return "attributeIndices", &m.attributes
	}
	return "", nil
}
func (m *mapping) fields() int { return 5 }

type stack struct{ locations []int32 }

func (m *stack) field(n int) (string, any) {
	if n == 1 {
		return "locationIndices", &m.locations
	}
	return "", nil
}
func (m *stack) fields() int { return 1 }

type location struct {
	mapping    int32
	address    uint64
	lines      table[line, *line]
	attributes []int32
}

func (m *location) field(n int) (string, any) {
	switch n {
	case 1:
		return "mappingIndex", &m.mapping
	case 2:
		return "address", &m.address
	case 3:
		return "lines", &m.lines
	case 4:
		return "attributeIndices", &m.attributes
	}
	return "", nil
}
func (m *location) fields() int { return 4 }

type line struct{ function int32 }

func (m *line) field(n int) (string, any) {
	switch n {
	case 1:
		return "functionIndex", &m.function
	case 2:
		return "line", skipped{}
	case 3:
		return "column", skipped{}
	}
	return "", nil
}
func (m *line) fields() int { return 3 }

type function struct{ name int32 }

func (m *function) field(n int) (string, any) {
	switch n {
	case 1:
		return "nameStrindex", &m.name
	case 2:
		return "systemNameStrindex", skipped{}
	case 3:
		return "filenameStrindex", skipped{}
	case 4:
		return "startLine", skipped{}
	}
	return "", nil
}
func (m *function) fields() int { return 4 }

// attribute is KeyValueAndUnit.
type attribute struct {
	key   int32
	value anyValue
}

func (m *attribute) field(n int) (string, any) {
	switch n {
	case 1:
		return "keyStrindex", &m.key
	case 2:
		return "value", &m.value
	case 3:
		return "unitStrindex", skipped{}
	}
	return "", nil
}
func (m *attribute) fields() int { return 3 }

// keyValue is an attribute of a resource. Its key is a string or, as profiles have it, an index.
type keyValue struct {
	key   string
	value anyValue
	index int32
}

func (m *keyValue) field(n int) (string, any) {
	switch n {
	case 1:
		return "key", &m.key
	case 2:
		return "value", &m.value
	case 3:
		return "keyStrindex", &m.index
	}
	return "", nil
}
func (m *keyValue) fields() int { return 3 }

// anyValue is AnyValue, if it is a string.
type anyValue struct {
	text  string
	index int32
}

func (m *anyValue) field(n int) (string, any) {
	switch n {
	case 1:
		return "stringValue", &m.text
	case 2:
		return "boolValue", skipped{}
	case 3:
		return "intValue", skipped{}
	case 4:
		return "doubleValue", skipped{}
	case 5:
		return "arrayValue", skipped{}
	case 6:
		return "kvlistValue", skipped{}
	case 7:
		return "bytesValue", skipped{}
	case 8:
		return "stringValueStrindex", &m.index
	}
	return "", nil
}
func (m *anyValue) fields() int { return 8 }
