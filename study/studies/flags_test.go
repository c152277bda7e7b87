package studies

import (
	"regexp"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// A shipped study cannot be edited: if a flag removes the cells of its stop rule or baseline, hints
// name flags with which it is accepted.
func TestFlagsAgainstStopAndBaseline(t *testing.T) {
	data, err := Read("quick")
	must.OK(t, err)
	named := regexp.MustCompile(`--set ([^ )]+)`)
	for _, set := range []string{"sidecars=both", "sidecars=[none,client]", "baseline={}"} {
		sets := []string{set}
		for range 3 {
			_, err = study.Parse(data, "quick.yaml", sets)
			flag := named.FindStringSubmatch(errs.Hint(err))
			if flag == nil {
				break
			}
			sets = append(sets, flag[1])
		}
		if len(sets) == 1 || err != nil {
			t.Errorf("--set %v: %v, hint %q", sets, err, errs.Hint(err))
		}
	}
}
