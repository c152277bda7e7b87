package table

import (
	"errors"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

func TestRows(t *testing.T) {
	for _, c := range []struct {
		row               Row
		median, low, high float64
		target            string
		pass              bool
	}{
		{Of("none", "s"), 0, 0, 0, "", true},
		{Of("odd", "s", 3, 1, 2), 2, 1, 3, "", true},
		{Of("even", "s", 4, 1, 2, 3), 2.5, 1, 4, "", true},
		{Of("reached", "s", 3, 1, 2).AtMost(2), 2, 1, 3, "<= 2", true},
		{Of("over", "s", 3, 1, 2).AtMost(1.9), 2, 1, 3, "<= 1.9", false},
		{Of("reached", "s", 3, 1, 2).AtLeast(2), 2, 1, 3, ">= 2", true},
		{Of("under", "s", 3, 1, 2).AtLeast(2.1), 2, 1, 3, ">= 2.1", false},
		{Of("nothing measured", "s").AtMost(5), 0, 0, 0, "<= 5", false},
		{Of("nothing measured", "s").AtLeast(0), 0, 0, 0, ">= 0", false},
	} {
		r := c.row
		if r.Median != c.median || r.Low != c.low || r.High != c.high || r.Target != c.target || r.Pass != c.pass {
			t.Errorf("%+v, want %+v", r, c)
		}
		if err := Judge([]Row{Of("fine", "s"), r}); errors.Is(err, ErrMissed) == c.pass {
			t.Errorf("%s: %v", r.Name, err)
		}
	}
}

func TestPrint(t *testing.T) {
	var out strings.Builder
	rows := []Row{Of("up", "s", 1234.5).AtMost(15), Of("width", "%", 12.345).AtMost(15), Of("memory", "KB", 0.01234)}
	must.OK(t, Print(&out, "title", rows))
	lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	var got []string
	for _, l := range lines {
		got = append(got, strings.Join(strings.Fields(l), " "))
	}
	want := []string{"title", "", "median low high unit target", "up 1234 1234 1234 s <= 15 MISSED", "width 12.3 12.3 12.3 % <= 15 reached", "memory 0.0123 0.0123 0.0123 KB"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got %q, want %q", got, want)
	}
}
