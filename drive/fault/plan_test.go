package fault_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/drive/fault"
)

func remove(service string) fault.Action {
	return &fault.Remove{Replicas: fault.Replicas{Service: service, Count: 1}}
}

func TestCheck(t *testing.T) {
	pause := func(of, service string) fault.Action {
		return &fault.Process{Of: of, Service: service, Do: fault.DoPause}
	}
	second := time.Second
	for name, test := range map[string]struct {
		steps []fault.Step
		step  int    // of the first problem
		field string // of it; "-" for no problem
	}{
		"nothing":           {field: "-"},
		"one":               {steps: []fault.Step{{Name: "a", At: second, Action: remove("bar")}}, field: "-"},
		"repeated":          {steps: []fault.Step{{Name: "a", At: second, Every: 2 * second, Times: 4, Action: remove("bar")}}, field: "-"},
		"no name":           {steps: []fault.Step{{At: second, Action: remove("bar")}}, field: "name"},
		"name twice":        {steps: []fault.Step{{Name: "a", Action: remove("bar")}, {Name: "a", Action: remove("bar")}}, step: 1, field: "name"},
		"no action":         {steps: []fault.Step{{Name: "a"}}},
		"negative time":     {steps: []fault.Step{{Name: "a", At: -1, Action: remove("bar")}}, field: "at"},
		"after the end":     {steps: []fault.Step{{Name: "a", At: 11 * second, Action: remove("bar")}}, field: "at"},
		"turn after end":    {steps: []fault.Step{{Name: "a", At: 8 * second, Every: second, Times: 4, Action: remove("bar")}}, field: "times"},
		"times alone":       {steps: []fault.Step{{Name: "a", Times: 4, Action: remove("bar")}}, field: "every"},
		"every alone":       {steps: []fault.Step{{Name: "a", Every: second, Action: remove("bar")}}, field: "times"},
		"condition repeats": {steps: []fault.Step{{Name: "a", When: "true", Every: second, Times: 2, Action: remove("bar")}}, field: "when"},
		"no way back":       {steps: []fault.Step{{Name: "a", For: second, Action: &fault.Restart{Service: "bar"}}}, field: "for"},
		"overlaps itself":   {steps: []fault.Step{{Name: "a", Every: second, Times: 2, For: 2 * second, Action: pause(fault.OfWorker, "bar")}}, field: "for"},
		"overlap": {steps: []fault.Step{{Name: "a", At: second, For: 3 * second, Action: pause(fault.OfWorker, "bar")}, {Name: "b", At: 2 * second, For: second, Action: pause(fault.OfWorker, "bar")}},
			step: 1, field: "at"},
		"side by side":               {steps: []fault.Step{{Name: "a", At: second, For: 3 * second, Action: pause(fault.OfWorker, "bar")}, {Name: "b", At: 2 * second, For: second, Action: pause(fault.OfWorker, "foo")}}, field: "-"},
		"in turn":                    {steps: []fault.Step{{Name: "a", At: second, For: second, Action: pause(fault.OfWorker, "bar")}, {Name: "b", At: 2 * second, For: second, Action: pause(fault.OfWorker, "bar")}}, field: "-"},
		"for good, then for a while": {steps: []fault.Step{{Name: "a", At: second, Action: remove("bar")}, {Name: "b", At: 2 * second, For: second, Action: remove("bar")}}, field: "-"},
		"for good while another stands": {steps: []fault.Step{{Name: "a", At: second, For: 3 * second, Action: remove("bar")}, {Name: "b", At: 2 * second, Action: remove("bar")}},
			step: 1, field: "at"},
	} {
		t.Run(name, func(t *testing.T) {
			line := fault.Timeline{Duration: 10 * second, Steps: test.steps}
			problems := line.Check()
			got := fault.Problem{Field: "-"}
			if len(problems) > 0 {
				got = problems[0]
			}
			if got.Step != test.step || got.Field != test.field {
				t.Errorf("step %d, field %q: %s", got.Step, got.Field, got.Text)
			}
		})
	}
}

func TestPlan(t *testing.T) {
	line := fault.Timeline{Duration: time.Minute, Steps: []fault.Step{
		{Name: "late", At: 20 * time.Second, Action: remove("bar")},
		{Name: "many", At: 10 * time.Second, Every: 10 * time.Second, Times: 3, For: 5 * time.Second, Action: &fault.Load{Rate: 5}},
	}}
	var got []string
	for _, o := range line.Plan() {
		got = append(got, o.Name+" "+o.Begin.String()+" "+o.End.String())
	}
	want := []string{"many 10s 15s", "late 20s 0s", "many#2 20s 25s", "many#3 30s 35s"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Any timeline that passes the check unrolls to its turns, in order of time and
// within the timeline.
func TestPlanOfAnyTimeline(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := fault.Timeline{Duration: time.Duration(rapid.IntRange(1, 100).Draw(t, "duration")) * time.Second}
		turns := 0
		for i := range rapid.IntRange(0, 5).Draw(t, "steps") {
			s := fault.Step{Name: string(rune('a' + i)), Action: remove(rapid.SampledFrom([]string{"bar", "foo"}).Draw(t, "service")),
				At: time.Duration(rapid.IntRange(-1, 100).Draw(t, "at")) * time.Second, Times: rapid.IntRange(0, 4).Draw(t, "times"),
				Every: time.Duration(rapid.IntRange(0, 20).Draw(t, "every")) * time.Second, For: time.Duration(rapid.IntRange(0, 20).Draw(t, "for")) * time.Second}
			turns += max(1, s.Times)
			line.Steps = append(line.Steps, s)
		}
		if len(line.Check()) > 0 {
			t.Skip()
		}
		all := line.Plan()
		if len(all) != turns {
			t.Fatalf("%d occurrences of %d", len(all), turns)
		}
		for i, o := range all {
			if o.Begin < 0 || o.Begin > line.Duration || i > 0 && o.Begin < all[i-1].Begin {
				t.Fatalf("%q begins at %v", o.Name, o.Begin)
			}
		}
	})
}
