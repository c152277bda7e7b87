package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/wake"
)

// turnSocket is the abstract socket that a lab holds while it changes what labs share:
// while it chooses free addresses and assigns them to its link, or checks for other
// labs and sets the machine's sysctls. Like addresses, such a socket belongs to a
// network namespace, and it ends with its process.
const turnSocket = "@meshtrial-lab-turn"

// turnLimit bounds the wait for another lab, which starts a process during its turn.
const turnLimit = time.Minute

// takeTurn waits for other labs' turns; end, which is idempotent, ends this one.
func takeTurn(ctx context.Context, socket string) (end func(), err error) {
	limited, cancel := context.WithTimeoutCause(ctx, turnLimit, fmt.Errorf("not done after %v", turnLimit))
	defer cancel()
	for {
		l, err := net.Listen("unix", socket)
		if err == nil {
			return func() { l.Close() }, nil
		}
		if !errors.Is(err, unix.EADDRINUSE) {
			return nil, fmt.Errorf("wait for labs that start or stop: %w", err)
		}
		if wake.Pause(limited, 10*time.Millisecond) != nil {
			err := fmt.Errorf("another lab is starting or stopping: %w", context.Cause(limited))
			if ctx.Err() == nil { // its holder hangs or is not ours
				err = errs.WithHint(err, "ss -xlp | grep %s names the process that holds the lock", socket)
			}
			return nil, err
		}
	}
}
