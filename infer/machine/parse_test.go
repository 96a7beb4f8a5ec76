package machine

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

// embedded returns the text of a model's file.
func embedded(tb testing.TB, name string) string {
	tb.Helper()
	b, err := files.ReadFile("models/" + name + ".yaml")
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}

// TestParseErrors: each wrong file is refused, with the field that is wrong.
func TestParseErrors(t *testing.T) {
	whole := embedded(t, "arm-cortex-a53")
	for _, tt := range []struct{ name, old, new, want string }{
		{"empty", whole, "", "EOF"},
		{"no mapping", whole, "[1, 2]", "cannot unmarshal"},
		{"unknown field", "in-order: true", "in-order: true\nturbo: 2", "field turbo not found"},
		{"unknown field of a class", "alu: {latency: 1", "alu: {latencies: 1", "field latencies not found"},
		{"duplicate class", "  alu: {", "  alu: {latency: 1, source: td}\n  alu: {", `"alu" already defined`},
		{"no name", "name: arm-cortex-a53", `name: ""`, "name"},
		{"other instruction set", "arch: aarch64", "arch: mips", `arch: "mips"`},
		{"missing class", "  mul:", "  #mul:", "classes: mul is missing"},
		{"class of another instruction set", "  mul:", "  lea: {latency: 1, source: td}\n  mul:", `unknown class "lea"`},
		{"unknown unit", "units: {mac: 1}", "units: {mack: 1}", `unknown unit or group "mack"`},
		{"unknown unit in a group", "alu01: [alu0, alu1]", "alu01: [alu0, alu7]", `groups: alu01: unknown unit "alu7"`},
		{"group named as a unit", "alu01: [alu0, alu1]", "alu01: [alu0, alu1]\n  mac: [alu0]", `groups: "mac"`},
		{"unit twice", "units: [alu0, ", "units: [alu0, alu0, ", `units: "alu0"`},
		{"no latency", "alu: {latency: 1, ", "alu: {", "classes: alu: latency"},
		{"latency below zero", "alu: {latency: 1, ", "alu: {latency: -1, ", "classes: alu: latency"},
		{"latency not a number", "alu: {latency: 1, ", "alu: {latency: .nan, ", "classes: alu: latency"},
		{"pressure of zero", "units: {mac: 1}", "units: {mac: 0}", "units: mac: 0 cycles"},
		{"too many places", "alu: {latency: 1, ", "alu: {latency: 1, uops: 99999, ", "uops: 99999"},
		{"unknown source", "source: alu}", "source: hearsay}", `source: "hearsay" is not among the sources`},
		{"no source of widths", "retire: 2, source: td}", "retire: 2}", "width: source"},
		{"width of zero", "dispatch: 2", "dispatch: 0", "width: dispatch"},
		{"caches out of order", "l2: 15", "l2: 1", "memory: l2"},
		{"a window in order", "rob: 0", "rob: 99", "window: rob"},
		{"loads that wait for less than nothing", "dram: 200,", "dram: 200, wait: -1,", "memory: wait: -1"},
		{"loads that wait, by no source", "dram: 200,", "dram: 200, wait: 1,", "memory: wait: source"},
		{"a chased load that ends before it began", "stack: false", "chased: 99, stack: false", "forwarding: chased: 99"},
		{"fusion of what", "branch: none", "branch: some", `fusion: branch: "some"`},
	} {
		text := strings.Replace(whole, tt.old, tt.new, 1)
		_, err := Parse([]byte(text))
		if text == whole {
			t.Errorf("%s: %q is not in the file", tt.name, tt.old)
		}
		if err == nil || !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
	}
	if _, err := Parse([]byte(whole + "\n---\n" + whole)); err == nil || !strings.Contains(err.Error(), "more than one") {
		t.Errorf("two documents: %v", err)
	}
	if _, err := Parse(make([]byte, maxFile+1)); !errors.Is(err, ErrFormat) {
		t.Errorf("a large file: %v", err)
	}
}

// FuzzParse: any bytes give an error that blames the file, or a model that
// schedules whatever block.
func FuzzParse(f *testing.F) {
	for _, name := range Names() {
		f.Add([]byte(embedded(f, name)), []byte("0 load add"))
	}
	f.Fuzz(func(t *testing.T, b, block []byte) {
		m, err := Parse(b)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		if again, err := Parse(b); err != nil || !reflect.DeepEqual(m, again) {
			t.Fatalf("parsed twice: %v", err)
		}
		insts, ops := anyProgram(block)
		for _, loop := range []bool{false, true} {
			if err := m.schedule(insts, ops, loop).Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// embeddedModels returns all models, sorted by name.
func embeddedModels() []*Model {
	var all []*Model
	for _, name := range Names() {
		all = append(all, models()[name]())
	}
	return all
}
