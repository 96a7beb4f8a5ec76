package emit

import "testing"

func TestGoBuild(t *testing.T) {
	for _, tt := range []struct{ profile, main, want string }{
		{"/src/cpu.pgo", "example.com/app/cmd/server", "go build -pgo=/src/cpu.pgo example.com/app/cmd/server"},
		{"/a b/it's.pgo", "command-line-arguments", `go build -pgo='/a b/it'\''s.pgo' .`},
		{"/src/default.pgo", "", "go build -pgo=/src/default.pgo .; in the directory of package main, go build finds default.pgo by itself"},
	} {
		if got := GoBuild(tt.profile, tt.main); got != tt.want {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
}
