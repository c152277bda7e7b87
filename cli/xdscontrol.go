package cli

import (
	"context"
	"fmt"
	"net"
	"runtime/debug"
	"time"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/drive/xds/control"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
)

// serveXDSControl is the xds role: fleets on request, until ctx ends or nobody
// was heard for alone.
func serveXDSControl(ctx context.Context, env *Env, address string, alone time.Duration) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return errs.WithHint(errs.WithCode(fmt.Errorf("xds control: %w", err), errs.CodeUsage), "--control takes a free HOST:PORT, for instance 127.0.0.1:15983")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	fmt.Fprintf(env.Stderr, "control %s\n", listener.Addr())
	alive := jsonhttp.NewAlive(alone)
	ctx, cancel := whileHeard(ctx, env, alive)
	defer cancel()
	server := control.NewServer(ctx, app.Version())
	server.Alive = alive
	return server.Serve(listener)
}
