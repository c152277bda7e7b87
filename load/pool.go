package load

import (
	"context"
	"net"
	"time"
)

type pool struct{}

func newPool(spec *Spec, t target, addr *net.TCPAddr, d *deadline, e *edges, col *collector) (*pool, error) {
	return &pool{}, nil
}
func (p *pool) connect(ctx context.Context) error { return nil }
func (p *pool) run(epoch time.Time)               {}
func (p *pool) wake()                             {}
