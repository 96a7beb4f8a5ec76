package forge

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"backfeed/internal/testtool"
)

const root = "../../.."

// An action is action.yml, as far as a runner reads it.
type action struct {
	Inputs map[string]struct {
		Description string
		Default     string
	}
	Outputs map[string]struct{ Description, Value string }
	Runs    struct {
		Using string
		Steps []struct {
			ID, Shell, Run string
			Env            map[string]string
		}
	}
}

func parse(t *testing.T, file string, into any) {
	t.Helper()
	f, err := os.Open(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := yaml.NewDecoder(f)
	if _, strict := into.(*map[string]job); strict {
		d.KnownFields(true)
	}
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

var expression = regexp.MustCompile(`\$\{\{ ([a-z0-9_.]+) \}\}`)

// runAction does what a runner does with the steps of the action: it puts values in the place of
// expressions of the variables, runs each script by bash, and reads the files that these write.
// It returns what was printed, the summary and the action's outputs.
func runAction(t *testing.T, dir string, env []string, inputs map[string]string) (log, summary string, outputs map[string]string, err error) {
	t.Helper()
	testtool.Need(t, "bash", "sha256sum")
	var a action
	parse(t, "action.yml", &a)
	if a.Runs.Using != "composite" {
		t.Fatalf("using %q", a.Runs.Using)
	}
	for name := range inputs {
		if _, ok := a.Inputs[name]; !ok {
			t.Fatalf("no input %s", name)
		}
	}
	abs, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	temp := t.TempDir()
	values := map[string]string{"github.action_path": abs, "github.token": token}
	expand := func(s string) string {
		out := expression.ReplaceAllStringFunc(s, func(e string) string {
			v, ok := values[expression.FindStringSubmatch(e)[1]]
			if !ok {
				t.Fatalf("no value of %s", e)
			}
			return v
		})
		if strings.Contains(strings.ReplaceAll(out, token, ""), "${{") {
			t.Fatalf("%q has an expression that is not known", s)
		}
		return out
	}
	for name, in := range a.Inputs {
		v, ok := inputs[name]
		if !ok {
			v = expand(in.Default)
		}
		values["inputs."+name] = v
	}
	var printed strings.Builder
	path := os.Getenv("PATH")
	summaryFile := filepath.Join(temp, "summary")
	for _, s := range a.Runs.Steps {
		if s.Shell != "bash" || strings.Contains(s.Run, "${{") {
			t.Fatalf("step %s: shell %q; an expression in a script is code of who sets it", s.ID, s.Shell)
		}
		script := testtool.Write(t, temp, "script.sh", []byte(s.Run))
		outputFile, pathFile := filepath.Join(temp, "output-"+s.ID), filepath.Join(temp, "path-"+s.ID)
		cmd := testtool.Command(t, "bash", "--noprofile", "--norc", "-eo", "pipefail", script)
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &printed, &printed
		cmd.Env = append(slices.Clone(os.Environ()), env...)
		cmd.Env = append(cmd.Env, "PATH="+path, "RUNNER_TEMP="+temp, "GITHUB_ACTIONS=true", "GITHUB_OUTPUT="+outputFile, "GITHUB_PATH="+pathFile, "GITHUB_STEP_SUMMARY="+summaryFile)
		for k, v := range s.Env {
			cmd.Env = append(cmd.Env, k+"="+expand(v))
		}
		err = cmd.Run()
		for k, v := range lines(outputFile) {
			values["steps."+s.ID+".outputs."+k] = v
		}
		if b, rerr := os.ReadFile(pathFile); rerr == nil {
			path = strings.TrimSpace(string(b)) + ":" + path
		}
		if err != nil {
			break
		}
	}
	if b, rerr := os.ReadFile(summaryFile); rerr == nil {
		summary = string(b)
	}
	outputs = map[string]string{}
	for name, o := range a.Outputs {
		if v, ok := values[expression.FindStringSubmatch(o.Value)[1]]; ok {
			outputs[name] = v
		}
	}
	return printed.String(), summary, outputs, err
}

// lines reads "key=value" lines of a file that need not be there.
func lines(file string) map[string]string {
	all := map[string]string{}
	b, _ := os.ReadFile(file)
	for line := range strings.Lines(string(b)) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
		all[k] = v
	}
	return all
}

// stub is a program in the place of backfeed, that writes down its arguments and says what it is
// to say, and the server and digest to have it from.
func stub(t *testing.T, code int) (url, digest, argv string) {
	argv = filepath.Join(t.TempDir(), "argv")
	text := fmt.Sprintf("#!/bin/sh\nprintf '<%%s>' \"$@\" >%s\nwhile [ $# -gt 0 ]; do [ \"$1\" = --markdown ] && echo '# Refreshed' >\"$2\"; shift; done\n[ \"$BACKFEED_TOKEN\" = '%s' ] || exit 9\nexit %d\n", argv, token, code)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, text) }))
	t.Cleanup(s.Close)
	return s.URL + "/backfeed", fmt.Sprintf("%x", sha256.Sum256([]byte(text))), argv
}

// TestActionSteps: the action installs what its checksum names, passes its inputs on, writes the
// summary also where refresh fails, and fails as refresh does.
func TestActionSteps(t *testing.T) {
	testtool.Need(t, "bash", "curl", "sha256sum")
	dir := t.TempDir()
	for _, code := range []int{0, 3} {
		url, digest, argv := stub(t, code)
		log, summary, outputs, err := runAction(t, dir, nil, map[string]string{
			"url": url, "sha256": digest, "targets": "api web", "config": "a b.yaml; touch x", "args": "--fail-on\nchanged\n\n--x=a b $(touch y)",
		})
		if (err == nil) != (code == 0) || code != 0 && !strings.Contains(err.Error(), fmt.Sprint("exit status ", code)) {
			t.Errorf("code %d: %v\n%s", code, err, log)
		}
		got, rerr := os.ReadFile(argv)
		want := `<refresh><--config><a b.yaml; touch x><--markdown><` + outputs["report"] + `><--target><api><--target><web><--propose><github><--fail-on><changed><--x=a b $(touch y)>`
		if rerr != nil || string(got) != want || outputs["report"] == "" {
			t.Errorf("code %d: arguments\n%s, want\n%s (%v)\n%s", code, got, want, rerr, log)
		}
		if summary != "# Refreshed\n" {
			t.Errorf("code %d: summary %q", code, summary)
		}
		if strings.Contains(log, token) {
			t.Errorf("the token is in the log: %s", log)
		}
	}
	if all, _ := os.ReadDir(dir); len(all) != 0 {
		t.Errorf("an input was run: %v", all)
	}

	url, digest, argv := stub(t, 0)
	if log, _, _, err := runAction(t, dir, nil, map[string]string{"url": url, "sha256": strings.Repeat("0", 64)}); err == nil || !strings.Contains(log, "is not the file that sha256 names") {
		t.Errorf("a wrong checksum: %v, %s", err, log)
	}
	if log, _, _, err := runAction(t, dir, nil, map[string]string{"url": url}); err == nil || !strings.Contains(log, "url needs sha256") {
		t.Errorf("no checksum: %v, %s", err, log)
	}
	if _, err := os.Stat(argv); err == nil {
		t.Error("a program ran whose checksum was not known")
	}
	if log, _, _, err := runAction(t, dir, nil, map[string]string{"url": url, "sha256": digest, "propose": ""}); err != nil {
		t.Errorf("%v, %s", err, log)
	} else if got, _ := os.ReadFile(argv); strings.Contains(string(got), "propose") {
		t.Errorf("%s", got)
	}
}

// A job is one of a GitLab configuration.
type job struct {
	Image         string
	Variables     map[string]string
	Rules         []map[string]string
	Interruptible bool
	ResourceGroup string   `yaml:"resource_group"`
	BeforeScript  []string `yaml:"before_script"`
	Script        []string
	Artifacts     struct {
		When     string
		ExposeAs string `yaml:"expose_as"`
		Paths    []string
		ExpireIn string `yaml:"expire_in"`
	}
}

// runJob does what GitLab's runner does with the job: one shell for before_script and script.
func runJob(t *testing.T, dir string, env []string, variables map[string]string) (string, error) {
	t.Helper()
	var jobs map[string]job
	parse(t, "ci/gitlab/refresh.yml", &jobs)
	j, ok := jobs[".backfeed-refresh"]
	if !ok || len(jobs) != 1 {
		t.Fatalf("jobs: %v", jobs)
	}
	for name := range variables {
		if _, ok := j.Variables[name]; !ok && name != "BACKFEED_TOKEN" {
			t.Fatalf("no variable %s", name)
		}
	}
	cmd := exec.Command("sh", "-c", "set -e\n"+strings.Join(append(j.BeforeScript, j.Script...), "\n"))
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), env...), "CI_PROJECT_DIR="+dir)
	for _, vars := range []map[string]string{j.Variables, variables} {
		for k, v := range vars {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestGitLabJob(t *testing.T) {
	testtool.Need(t, "curl", "sha256sum")
	dir := filepath.Join(t.TempDir(), "project")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, code := range []int{0, 3} {
		url, digest, argv := stub(t, code)
		log, err := runJob(t, dir, nil, map[string]string{"BACKFEED_TOKEN": token, "BACKFEED_URL": url, "BACKFEED_SHA256": digest, "BACKFEED_TARGETS": "api web", "BACKFEED_ARGS": "--fail-on\nchanged\n--x=a b * $(touch y)"})
		if (err == nil) != (code == 0) || code != 0 && !strings.Contains(err.Error(), fmt.Sprint("exit status ", code)) {
			t.Errorf("code %d: %v\n%s", code, err, log)
		}
		got, rerr := os.ReadFile(argv)
		want := `<refresh><--config><backfeed.yaml><--markdown><backfeed-refresh.md><--target><api><--target><web><--propose><gitlab><--fail-on><changed><--x=a b * $(touch y)>`
		if rerr != nil || string(got) != want {
			t.Errorf("code %d: arguments\n%s, want\n%s (%v)\n%s", code, got, want, rerr, log)
		}
	}
	if all, _ := os.ReadDir(dir); len(all) != 1 || all[0].Name() != "backfeed-refresh.md" {
		t.Errorf("the work tree has %v", all)
	}
	url, _, argv := stub(t, 0)
	for _, vars := range []map[string]string{
		{"BACKFEED_URL": url}, {"BACKFEED_URL": url, "BACKFEED_SHA256": strings.Repeat("0", 64)},
		{}, {"BACKFEED_COMMIT": "main"}, {"BACKFEED_COMMIT": "--upload-pack=x"},
	} {
		if log, err := runJob(t, dir, nil, vars); err == nil || !strings.Contains(log, "BACKFEED_") {
			t.Errorf("%v: %v, %s", vars, err, log)
		}
	}
	if _, err := os.Stat(argv); err == nil {
		t.Error("a program ran whose checksum was not known")
	}
}

// TestCI: refresh itself, installed from source as both do, before a forge: the first profile
// opens one pull request, and a second run changes nothing.
func TestCI(t *testing.T) {
	testtool.Need(t, "git", "bash", "go")
	goenv := testtool.Run(t, ".", "go", "env", "GOMODCACHE", "GOCACHE", "GOFLAGS", "GOPROXY")
	vars := strings.Split(goenv, "\n")
	for _, kind := range []string{"github", "gitlab"} {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t, kind)
			people := w.people()
			for _, name := range []string{"mix", "samples.bfr"} {
				b, err := os.ReadFile(filepath.Join(root, "testdata/mix", name))
				if err != nil {
					t.Fatal(err)
				}
				testtool.Write(t, people, name, b)
			}
			write(t, people, "backfeed.yaml", "refresh:\n  targets:\n    mix:\n      sources: [samples.bfr]\n      image: ./mix\n      limits: {min-samples: 100, max-age: 30d}\n      outputs:\n        - llvm: mix.prof\n")
			publish(t, people, "what to refresh")
			w.checkout()
			env := []string{"GOMODCACHE=" + vars[0], "GOCACHE=" + vars[1], "GOFLAGS=" + vars[2], "GOPROXY=" + vars[3]}
			for _, name := range []string{"GITHUB_API_URL", "GITHUB_REPOSITORY", "GITHUB_REF", "CI_API_V4_URL", "CI_PROJECT_ID", "CI_COMMIT_BRANCH"} {
				env = append(env, name+"="+w.env(name))
			}
			for i, want := range []string{"opened pull request 1", "says so already"} {
				w.checkout()
				var log, summary string
				var err error
				if kind == "github" {
					log, summary, _, err = runAction(t, w.work, env, nil)
				} else {
					abs, aerr := filepath.Abs(root)
					if aerr != nil {
						t.Fatal(aerr)
					}
					commit := testtool.Run(t, abs, "git", "rev-parse", "HEAD")
					log, err = runJob(t, w.work, env, map[string]string{"BACKFEED_TOKEN": token, "BACKFEED_SOURCE": "file://" + abs, "BACKFEED_COMMIT": strings.TrimSpace(commit)})
					b, _ := os.ReadFile(filepath.Join(w.work, "backfeed-refresh.md"))
					summary = string(b)
				}
				if err != nil || !strings.Contains(log, want) || summary == "" || strings.Contains(log, token) {
					t.Fatalf("run %d: %v; want %q in\n%s\nsummary %q", i, err, want, log, summary)
				}
			}
			if got := run(t, w.remote, "git", "diff", "--name-only", "main", DefaultBranch); got != "backfeed.lock\nmix.prof" {
				t.Errorf("the branch changes %q", got)
			}
			if all := w.all(); len(all) != 1 || all[0].State != Open || !strings.Contains(all[0].Body, "mix") {
				t.Errorf("%+v", all)
			}
		})
	}
}
