package trial

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/meshtrial/meshtrial/drive/worker/control"
)

// turns lets the steps of a service's workers change them one after the other. A worker holds
// one prepared change at a time, derived from its current behaviour, and forgets it after a
// while. So a step is prepared ahead of time only if no other step is in force that will be
// undone, and a step that begins earlier takes the place: the displaced one prepares its
// change again when it begins.
type turns struct {
	one      chan struct{} // holds a value while somebody talks to the workers
	waiting  *handover     // whose change the workers hold; nil: nobody's
	standing int           // steps that have begun and will be undone
}

func newTurns() *turns { return &turns{one: make(chan struct{}, 1)} }

// take waits until nobody else talks to the workers; leave lets others in.
func (t *turns) take(ctx context.Context) error {
	select {
	case t.one <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *turns) leave() { <-t.one }

// handover is one step's change of some workers of a service.
type handover struct {
	turns   *turns
	names   []string
	apis    []control.Client
	lives   func(worker int) bool // whether its pod still exists
	set     func(*control.Config)
	passing bool // it is undone before the timeline ends

	before, after []control.Config
	pending       *control.Pending // nil: the workers do not hold it
}

func newHandover(t *turns, names []string, apis []control.Client, lives func(int) bool, set func(*control.Config)) *handover {
	return &handover{turns: t, names: names, apis: apis, lives: lives, set: set,
		before: make([]control.Config, len(apis)), after: make([]control.Config, len(apis))}
}

// stage has the workers hold the change, if it is its turn.
func (c *handover) stage(ctx context.Context) error {
	if err := c.turns.take(ctx); err != nil {
		return err
	}
	defer c.turns.leave()
	if c.turns.waiting != nil || c.turns.standing > 0 {
		return nil
	}
	if err := c.hand(ctx); err != nil {
		return err
	}
	c.turns.waiting = c
	return nil
}

// hand gives the workers the change, derived from their current behaviour.
func (c *handover) hand(ctx context.Context) (err error) {
	c.pending, err = control.StageAll(ctx, c.apis, func(i int, config *control.Config) {
		c.before[i] = *config
		c.set(config)
		c.after[i] = *config
	})
	return err
}

// begin puts the change in force.
func (c *handover) begin(ctx context.Context) error {
	if err := c.turns.take(ctx); err != nil {
		return err
	}
	defer c.turns.leave()
	if c.passing {
		c.turns.standing++ // also if it fails: its end is asked for
	}
	if other := c.turns.waiting; other != nil && other != c {
		other.pending.Discard(ctx)
		other.pending = nil
	}
	c.turns.waiting = nil
	if c.pending == nil {
		if err := c.hand(ctx); err != nil {
			return err
		}
	}
	_, err := c.pending.Commit(ctx, time.Time{})
	return err
}

// prove asks the workers for their behaviour.
func (c *handover) prove(ctx context.Context) (string, error) {
	for i, api := range c.apis {
		now, err := api.Config(ctx)
		if err != nil {
			return "", fmt.Errorf("ask worker %s what it does: %w", c.names[i], err)
		}
		want := c.after[i]
		want.Version, want.Schema = now.Version, now.Schema
		if !sameBehaviour(now, want) {
			return "", fmt.Errorf("worker %s does not do what it was told", c.names[i])
		}
	}
	return fmt.Sprintf("%d of %d workers say that they do it", len(c.apis), len(c.apis)), nil
}

// end reverts the change at the remaining workers.
func (c *handover) end(ctx context.Context) error {
	if err := c.turns.take(ctx); err != nil {
		return err
	}
	defer c.turns.leave()
	if c.passing {
		c.turns.standing--
	}
	var all []error
	for i, api := range c.apis {
		if !c.lives(i) {
			continue
		}
		_, err := api.Update(ctx, func(config *control.Config) { undo(config, c.before[i], c.after[i]) })
		if err != nil && c.lives(i) {
			all = append(all, fmt.Errorf("worker %s: %w", c.names[i], err))
		}
	}
	return errors.Join(all...)
}

// undo restores the values of a configuration that a change replaced. Other steps' changes
// since then stay.
func undo(now *control.Config, before, after control.Config) {
	to, was, became := reflect.ValueOf(now).Elem(), reflect.ValueOf(before), reflect.ValueOf(after)
	for i := range to.NumField() {
		if !reflect.DeepEqual(was.Field(i).Interface(), became.Field(i).Interface()) {
			to.Field(i).Set(was.Field(i))
		}
	}
}
