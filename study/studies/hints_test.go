package studies

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/study"
)

// Nobody can write into a shipped study: where --set flags have it refused, those that are
// proposed are taken.
func TestHintsAreTaken(t *testing.T) {
	between, followed := regexp.MustCompile(`, or |; `), 0
	for _, name := range Names() {
		data, err := Read(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, sets := range [][]string{
			{"sidecars=ambient"}, {"sidecars=[none,server]"}, {"rate=1000"}, {"rate=[max,1000]"}, {"replicas=5"}, {"retries=off"},
			{"measures=[latency]"}, {"baseline={}"}, {"concurrency=[2,4]"}, {"exclude=[{sidecars: both}]", "concurrency=[2,4]"},
		} {
			_, err := study.Parse(data, name+".yaml", sets)
			if err == nil {
				continue
			}
			for _, hint := range between.Split(errs.Hint(err), -1) {
				flags, ok := strings.CutPrefix(strings.TrimSuffix(hint, " to compare nothing"), "--set ")
				if !ok {
					continue
				}
				followed++
				with := slices.Clone(sets)
				for flag := range strings.SplitSeq(flags, " --set ") {
					with = append(with, strings.Trim(flag, "'"))
				}
				if _, again := study.Parse(data, name+".yaml", with); again != nil {
					t.Errorf("%s --set %s: %v\n%s: %v", name, strings.Join(sets, " --set "), err, hint, again)
				}
			}
		}
	}
	if followed < 15 {
		t.Errorf("%d hints were followed", followed)
	}
}
