package app

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/study"
)

// Prices can be restated for a run that an earlier release measured, even if its study would be
// rejected today.
func TestRestateRefusedStudy(t *testing.T) {
	const text = "name: old\nquestion: q\ncontrol: {}\nsettings: {endpoint_slices: 2, slice_namespaces: 5}\nmoney: {core_month: 20}\n"
	if _, err := study.Parse([]byte(text), store.FileResolved, nil); err == nil || !strings.Contains(err.Error(), "cannot fill") {
		t.Fatalf("such a study can be run: %v", err)
	}
	run, err := restate(record.Run{StudyYAML: []byte(text)}, []string{"money.core_month=25"})
	if err != nil || !strings.Contains(string(run.StudyYAML), "core_month: 25") {
		t.Errorf("%v: %s", err, run.StudyYAML)
	}
}
