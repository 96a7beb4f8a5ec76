package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"backfeed/internal/testtool"
)

// A podTemplate is what the tests look at of the pods of a manifest.
type podTemplate struct {
	Spec struct {
		HostPID                      bool `yaml:"hostPID"`
		HostNetwork                  bool `yaml:"hostNetwork"`
		AutomountServiceAccountToken *bool
		InitContainers               []container `yaml:"initContainers"`
		Containers                   []container
		Volumes                      []struct {
			Name     string
			HostPath struct{ Path string } `yaml:"hostPath"`
		}
	}
}

type container struct {
	Args            []string
	VolumeMounts    []struct{ Name, MountPath string } `yaml:"volumeMounts"`
	SecurityContext struct {
		Privileged               bool
		RunAsUser                int   `yaml:"runAsUser"`
		AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
		Capabilities             struct{ Add, Drop []string }
	} `yaml:"securityContext"`
}

// manifest reads a manifest of one object and returns its kind and pods.
func manifest(t *testing.T, name string) (string, podTemplate) {
	t.Helper()
	var object struct {
		Kind string
		Spec struct {
			Template    podTemplate
			JobTemplate struct {
				Spec struct{ Template podTemplate }
			} `yaml:"jobTemplate"`
		}
	}
	if err := yaml.Unmarshal([]byte(testtool.Read(t, "../../integrations/kubernetes", name)), &object); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if object.Kind == "CronJob" {
		return object.Kind, object.Spec.JobTemplate.Spec.Template
	}
	return object.Kind, object.Spec.Template
}

// TestCapabilities: the unit, the manifest and doctor agree on what the agent needs, and the manifest gives nothing else.
func TestCapabilities(t *testing.T) {
	_, said, errs := runCLI(t, "doctor", "--format", "json")
	var doc any
	if err := json.Unmarshal([]byte(said), &doc); err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
	names := regexp.MustCompile(`"(CAP_[A-Z_]+)"`)
	want := map[string]bool{}
	for _, m := range names.FindAllStringSubmatch(said, -1) {
		want[m[1]] = true
	}
	if len(want) < 5 {
		t.Skipf("doctor looks for %d capabilities here: it does on Linux", len(want))
	}
	for _, key := range []string{"AmbientCapabilities", "CapabilityBoundingSet"} {
		line := regexp.MustCompile(`(?m)^` + key + `=(.*)$`).FindStringSubmatch(systemdUnit)
		if line == nil {
			t.Fatalf("the unit has no %s", key)
		}
		sameNames(t, "the unit's "+key, strings.Fields(line[1]), want)
	}
	kind, pods := manifest(t, "agent.yaml")
	c := pods.Spec.Containers[0]
	var added []string
	for _, name := range c.SecurityContext.Capabilities.Add {
		added = append(added, "CAP_"+name)
	}
	sameNames(t, "the manifest", added, want)
	s := c.SecurityContext
	if kind != "DaemonSet" || !pods.Spec.HostPID || pods.Spec.HostNetwork || s.Privileged || !s.ReadOnlyRootFilesystem ||
		s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !slices.Equal(s.Capabilities.Drop, []string{"ALL"}) {
		t.Errorf("%s: more or fewer rights than the agent needs: %+v", kind, pods.Spec)
	}
	for _, v := range pods.Spec.Volumes {
		if v.HostPath.Path != "/var/lib/backfeed" {
			t.Errorf("the agent sees %s of the host", v.HostPath.Path)
		}
	}
	_, pods = manifest(t, "compact.yaml")
	for _, c := range append(pods.Spec.InitContainers, pods.Spec.Containers...) {
		if s := c.SecurityContext; len(s.Capabilities.Add) > 0 || s.RunAsUser == 0 || !slices.Equal(s.Capabilities.Drop, []string{"ALL"}) {
			t.Errorf("%q has rights: %+v", c.Args, s)
		}
	}
}

func sameNames(t *testing.T, where string, got []string, want map[string]bool) {
	t.Helper()
	for _, name := range got {
		if !want[name] {
			t.Errorf("%s has %s, which doctor does not look for", where, name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s has %q, doctor looks for %v", where, got, want)
	}
}

// TestManifests: what manifests run are commands with flags that they have, on volumes that they mount.
func TestManifests(t *testing.T) {
	for _, name := range []string{"agent.yaml", "compact.yaml"} {
		_, pods := manifest(t, name)
		for _, c := range append(pods.Spec.InitContainers, pods.Spec.Containers...) {
			cmd := commandOf(strings.Join(c.Args, " "))
			if cmd == nil {
				t.Errorf("%s: no command %q", name, c.Args)
				continue
			}
			_, help, _ := runAs(cmd, "--help")
			for _, arg := range c.Args {
				if flag, _, _ := strings.Cut(arg, "="); strings.HasPrefix(flag, "--") && !regexp.MustCompile(`\s`+flag+`\b`).MatchString(help) {
					t.Errorf("%s: %s has no flag %s", name, cmd.name, flag)
				}
			}
			for _, mount := range c.VolumeMounts {
				if !slices.ContainsFunc(pods.Spec.Volumes, func(v struct {
					Name     string
					HostPath struct{ Path string } `yaml:"hostPath"`
				}) bool {
					return v.Name == mount.Name
				}) {
					t.Errorf("%s: no volume %s", name, mount.Name)
				}
			}
		}
	}
}
