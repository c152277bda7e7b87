package main

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Each world's studies can be parsed, and have one cell or two.
func TestWorlds(t *testing.T) {
	planted, healthy := map[string]bool{}, 0
	for _, w := range worlds {
		if w.planted == "" {
			healthy++
		} else if planted[w.planted] {
			t.Errorf("%s is planted twice", w.planted)
		}
		planted[w.planted] = true
		with := w.byHand
		if with == nil {
			with = levels("debounce_max", "9s")
		}
		for cells, text := range map[int]string{1: w.study(nil), 2: w.study(with)} {
			s, err := study.Parse([]byte(text), "study.yaml", nil)
			if err != nil {
				t.Errorf("%s: %v\n%s", w.name, err, text)
				continue
			}
			plan, err := study.NewPlan(s, 1)
			if err != nil || len(plan.Cells) != cells || len(plan.Block(0)) != cells {
				t.Errorf("%s: %d cells in a block of %d, %v\n%s", w.name, len(plan.Cells), len(plan.Block(0)), err,
					text)
			}
		}
	}
	if healthy != 3 || len(worlds) != 15 {
		t.Errorf("%d worlds, %d healthy", len(worlds), healthy)
	}
}

// What was promised for one cell is compared with what the other measured.
func TestMeasure(t *testing.T) {
	cell := func(name string) record.Cell { return record.Cell{study.FactorVariant: name} }
	report := func(after float64) []advice.Report {
		return []advice.Report{
			{Cell: cell(asPlanted), Advice: []advice.Judgement{{Rule: "throttle",
				Expect: &advice.Expected{Quantity: "queue", Now: 5, Low: 1, High: 4}}},
				Values: []advice.Value{{Name: "queue", Value: 5}}},
			{Cell: cell(advised), Values: []advice.Value{{Name: "queue", Value: after}}},
		}
	}
	for after, want := range map[float64]bool{0.5: false, 1: true, 3: true, 4: true, 4.5: false} {
		e := &effect{}
		e.measure("throttle", report(after))
		if e.Within != want || e.Failed != "" || e.Before != 5 || e.After != after || e.Low != 1 || e.High != 4 {
			t.Errorf("%g: %+v", after, e)
		}
	}
	for name, reports := range map[string][]advice.Report{"no advice": report(3)[1:], "no other cell": report(3)[:1]} {
		e := &effect{}
		if e.measure("throttle", reports); e.Failed == "" || e.Within {
			t.Errorf("%s: %+v", name, e)
		}
	}
	step := report(3)
	step[0].Advice[0].Try = []advice.Step{{Do: "look"},
		{Lever: "push_throttle", Level: "2", Expect: &advice.Expected{Quantity: "queue", Now: 5, Low: 3.5, High: 5}}}
	e := &effect{}
	if e.measure("throttle", step); e.Within || e.Low != 3.5 {
		t.Errorf("a step's own promise: %+v", e)
	}
}

// A table reaches its targets with 11 of 12 named, all three silent and ten effects as
// promised, and misses them with one fewer of any.
func TestJudge(t *testing.T) {
	of := func(named, within, silent int) *summary {
		s := &summary{}
		for i := range 12 {
			l := line{Planted: "throttle", First: "throttle", Effect: &effect{Within: i < within}}
			if i >= named {
				l.First, l.Effect = "locks", nil
			}
			s.Worlds = append(s.Worlds, l)
		}
		for i := range 3 {
			l := line{World: "healthy"}
			if i >= silent {
				l.First = "throttle"
			}
			s.Worlds = append(s.Worlds, l)
		}
		s.count()
		return s
	}
	for name, c := range map[string]struct {
		s    *summary
		pass bool
	}{
		"all": {of(12, 12, 3), true}, "just": {of(11, 10, 3), true}, "one name": {of(10, 10, 3), false},
		"one effect": {of(12, 9, 3), false}, "one that talks": {of(12, 12, 2), false},
	} {
		if err := c.s.judge(true); (err == nil) != c.pass {
			t.Errorf("%s: %v, %+v", name, err, c.s)
		}
		var b strings.Builder
		if err := c.s.print(&b); err != nil || !strings.Contains(b.String(), "target 11 of 12") {
			t.Errorf("%s: %v\n%s", name, err, b.String())
		}
	}
	s := of(12, 12, 3)
	s.Missing = []string{"dns"}
	if s.judge(true) == nil || s.judge(false) != nil {
		t.Error("a world that was not run")
	}
	s.Worlds[13].Failed = "no advice"
	s.Silent, s.Healthy, s.Planted, s.Named, s.Within = 0, 0, 0, 0, 0
	if s.count(); s.judge(false) == nil {
		t.Error("silence of a world that failed counts")
	}
}

func TestChoose(t *testing.T) {
	if all, err := choose(""); err != nil || len(all) != 15 {
		t.Errorf("%d, %v", len(all), err)
	}
	if some, err := choose("dns,throttle"); err != nil || len(some) != 2 || some[0].name != "dns" {
		t.Errorf("%v, %v", some, err)
	}
	if _, err := choose("moon"); err == nil || !strings.Contains(err.Error(), "restless") {
		t.Errorf("%v", err)
	}
}
