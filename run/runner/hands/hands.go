// Package hands handles pods that do one thing together, such as load generators: it calls all
// of them concurrently, compares their clocks, and repeats a trial that loses one of them.
package hands

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/run/verdict"
)

// Hands are pods that do one thing together. Most trials have only one.
type Hands struct {
	What string // what each is: a generator
	In   string // what its pod is called: load pod
	Pods []site.Pod
}

// Each calls do for all hands concurrently, and waits for all of them even if one fails, so
// that what another has started can then be ended.
func (h Hands) Each(do func(i int) error) error {
	failed := make([]error, len(h.Pods))
	var all sync.WaitGroup
	for i, pod := range h.Pods {
		all.Go(func() {
			if failed[i] = do(i); failed[i] != nil && len(h.Pods) > 1 {
				failed[i] = fmt.Errorf("%s %s: %w", h.In, pod.Name, failed[i])
			}
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

// ErrLost is wrapped by the error of a hand that disappeared or ended early. What the others
// did is then not a trial, but another attempt can succeed once its pod is back.
var ErrLost = errors.New("was lost")

// Lost marks the error of one of several hands as lost.
func (h Hands) Lost(err error) error {
	if err == nil || len(h.Pods) == 1 {
		return err
	}
	return fmt.Errorf("the %s %w: %w", h.What, ErrLost, err)
}

// AsLost marks an error that may be a consequence of a lost hand, such as one from the
// observer of its node. It asks the hands to find out.
func (h Hands) AsLost(ctx context.Context, err error, ask func(ctx context.Context, i int) error) error {
	if err == nil || len(h.Pods) == 1 || errors.Is(err, ErrLost) || ctx.Err() != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, site.StopTimeout)
	defer cancel()
	gone := h.Each(func(i int) error { return h.Lost(ask(ctx, i)) })
	if gone == nil {
		return err
	}
	return fmt.Errorf("%w; %w", gone, err)
}

// AgainIfLost runs an attempt at a trial. If one of several hands was lost, the trial is void,
// whatever the others did. Once the pods are found again, it runs another attempt and passes
// the reason. If that attempt fails too, the record notes the repetition.
func AgainIfLost(ctx context.Context, attempt func(lost []string) (record.Trial, error), find func(lost error) error) (record.Trial, error) {
	trial, err := attempt(nil)
	if !errors.Is(err, ErrLost) || ctx.Err() != nil {
		return trial, err
	}
	lost := err
	if err := find(lost); err != nil {
		return trial, fmt.Errorf("%w; its pod was not found afterwards: %w", lost, err)
	}
	if trial, err = attempt([]string{lost.Error()}); err != nil {
		trial.Validity.Warnings = append(trial.Validity.Warnings, verdict.NoteRepeated.Of(lost))
	}
	return trial, err
}

// Clock is how far a clock is ahead of another, and the maximum error in either direction.
type Clock struct{ Ahead, Bound time.Duration }

// Record converts the clock to the form of trial records.
func (c Clock) Record() record.Clock {
	return record.Clock{AheadUS: record.Microseconds(c.Ahead), ErrorUS: record.Microseconds(c.Bound)}
}

// comparisons is how often the clocks of hands are compared, each time with the fastest of
// several exchanges. The result must be consistent with all of them.
const comparisons = 10

// comparedAtOnce is the number of nodes whose clocks are compared concurrently. Requests to
// hundreds of nodes at once would delay each other and widen the bounds.
const comparedAtOnce = 8

// Compare returns how far a clock is ahead of this machine's, consistent with all of several
// comparisons.
func Compare(compare func() (jsonhttp.Clock, error)) (Clock, error) {
	least, most := time.Duration(math.MinInt64), time.Duration(math.MaxInt64)
	for range comparisons {
		c, err := compare()
		if err != nil {
			return Clock{}, err
		}
		least, most = max(least, c.Ahead-c.Bound), min(most, c.Ahead+c.Bound)
	}
	if least > most {
		return Clock{}, fmt.Errorf("its clock, or this machine's, was set by %v or more during the comparison", least-most)
	}
	return Clock{least + (most-least)/2, (most - least + 1) / 2}, nil
}

// Clocks compares the hands' clocks with the first one's, by way of this machine's, with which
// compare compares one of them. Hands on the same node share a clock, so only one of them is
// asked.
func (h Hands) Clocks(compare func(i int) (jsonhttp.Clock, error)) ([]Clock, error) {
	asked := map[string]int{} // by node, the first hand there
	for i, pod := range h.Pods {
		if _, there := asked[pod.Node]; !there {
			asked[pod.Node] = i
		}
	}
	out, turns := make([]Clock, len(h.Pods)), make(chan struct{}, comparedAtOnce)
	err := h.Each(func(i int) error {
		if asked[h.Pods[i].Node] != i {
			return nil
		}
		turns <- struct{}{}
		defer func() { <-turns }()
		var err error
		out[i], err = Compare(func() (jsonhttp.Clock, error) {
			c, err := compare(i)
			if err != nil {
				err = h.Lost(fmt.Errorf("compare clocks with the %s: %w", h.What, err))
			}
			return c, err
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	seen := slices.Clone(out)
	for i, pod := range h.Pods {
		if out[i] = (Clock{}); pod.Node != h.Pods[0].Node {
			there := seen[asked[pod.Node]]
			out[i] = Clock{there.Ahead - seen[0].Ahead, there.Bound + seen[0].Bound}
		}
	}
	return out, nil
}
