package wake

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestPause(t *testing.T) {
	begin := time.Now()
	if err := Pause(t.Context(), 20*time.Millisecond); err != nil || time.Since(begin) < 20*time.Millisecond {
		t.Errorf("after %v: %v", time.Since(begin), err)
	}
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
	if err := Pause(ctx, time.Hour); !errors.Is(err, why) {
		t.Error(err)
	}
	for _, d := range []time.Duration{0, -time.Second, time.Hour} {
		if err := Pause(ctx, d); !errors.Is(err, why) {
			t.Errorf("%v: %v", d, err)
		}
	}
	if err := Pause(t.Context(), -time.Second); err != nil {
		t.Error(err)
	}
}
