package xds

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/confile"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/wake"
)

// How long a recording waits for a proxy's configuration, and for how long it must stay
// unchanged.
const (
	recordLimit    = 2 * time.Minute
	recordPatience = 30 * time.Second // while no proxy connects
	recordQuiet    = time.Second
	recordLook     = 50 * time.Millisecond
)

// Record connects the one proxy of spec and, once it has its configuration, writes the
// configuration as istiod sent it. It calls say with the state of the fleet, repeatedly; say may
// be nil.
func Record(ctx context.Context, spec Spec, out io.Writer, say func(Status)) (held Holding, err error) {
	if len(spec.Proxies) != 1 {
		return held, errs.Usage("xds: a recording is of a single proxy, not of %d", len(spec.Proxies))
	}
	limited, cancel := context.WithTimeoutCause(ctx, recordLimit, fmt.Errorf("the proxy did not get its configuration within %v", recordLimit))
	defer cancel()
	fleet, err := Start(limited, spec)
	if err != nil {
		return held, err
	}
	defer fleet.Stop()
	began := time.Now()
	for {
		s := fleet.Status()
		if s.Quiet(int64(recordQuiet)) {
			break
		}
		if say != nil {
			say(s)
		}
		if s.Connected == 0 && time.Since(began) > recordPatience {
			return held, errs.WithHint(fmt.Errorf("nothing at %s served a proxy within %v: %s", strings.Join(spec.Addresses, ", "), recordPatience, cmp.Or(s.LastError, "no answer")),
				"istiod listens on port 15010 in plain text, on 15012 with TLS (--security)")
		}
		if err := wake.Pause(limited, recordLook); err != nil {
			if ctx.Err() != nil {
				err = fmt.Errorf("interrupted before %s had sent a configuration", strings.Join(spec.Addresses, ", "))
			}
			return held, fmt.Errorf("%w: %s", err, cmp.Or(fleet.Status().LastError, "no error was seen"))
		}
	}
	return fleet.Holdings()[0], fleet.WriteConfiguration(out, 0, confile.Header{})
}
