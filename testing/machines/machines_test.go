package main

import (
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/study"

	_ "github.com/meshtrial/meshtrial/kinds/controlplane"
	_ "github.com/meshtrial/meshtrial/kinds/dataplane"
	_ "github.com/meshtrial/meshtrial/kinds/resilience"
)

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		transcript string
		want       []step
		passed     bool
	}{
		"empty": {"", nil, false},
		"all well": {"Debian\n@@ begin doctor\r\nok\r\n@@ end 0 8\r\n@@ begin run dataplane\n@@ end 4 90\n@@ begin report\n@@ end 4 1\n@@ begin nothing left\n@@ end 0 0\n",
			[]step{{"doctor", 0, 8, true}, {"run dataplane", 4, 90, true}, {"report", 4, 1, true}, {"nothing left", 0, 0, true}}, true},
		"no answer from doctor": {"@@ begin doctor\n@@ end 4 8\n@@ begin nothing left\n@@ end 0 0\n",
			[]step{{"doctor", 4, 8, true}, {"nothing left", 0, 0, true}}, false},
		"something left": {"@@ begin nothing left\n> veth1\n@@ end 1 0\n", []step{{"nothing left", 1, 0, true}}, false},
		"cut off":        {"@@ begin doctor\n@@ end 0 8\n@@ begin lab up\n", []step{{"doctor", 0, 8, true}, {name: "lab up"}}, false},
		"no beginning":   {"@@ end 0 8\n@@ end zero\n", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := parse(c.transcript)
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if passed(got) != c.passed {
				t.Errorf("passed: %v", !c.passed)
			}
		})
	}
}

// The script and the studies for the machines can be read on this one.
func TestWhatGoesIn(t *testing.T) {
	for name, text := range map[string]string{"dataplane": dataPlane, "controlplane": controlPlane, "resilience": resilience} {
		if _, err := study.Parse([]byte(text), name+".yaml", nil); err != nil {
			t.Error(err)
		}
	}
	if out, err := exec.Command("bash", "-n", "guest.sh").CombinedOutput(); err != nil {
		t.Errorf("guest.sh: %v: %s", err, out)
	}
	root := t.TempDir()
	if err := (machine{name: "some", files: map[string]string{"/etc/some": "thing"}}).fill(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	if found, err := filepath.Glob(root + "/etc/systemd/system/*/tryit.service"); err != nil || len(found) != 1 {
		t.Errorf("the script is wanted by %v", found)
	}
}

func TestChoose(t *testing.T) {
	if all, err := choose(nil); err != nil || len(all) != len(machines) {
		t.Errorf("%d machines: %v", len(all), err)
	}
	if one, err := choose([]string{"debian13"}); err != nil || len(one) != 1 || one[0].suite != "trixie" {
		t.Errorf("%+v: %v", one, err)
	}
	if _, err := choose([]string{"debian1"}); err == nil || !strings.Contains(err.Error(), "debian12") {
		t.Errorf("%v", err)
	}
}
