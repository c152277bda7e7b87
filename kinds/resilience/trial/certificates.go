package trial

import (
	"context"
	"fmt"
	"time"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/mesh"
	"golang.org/x/sync/errgroup"
)

// certificateTTL is the certificate lifetime in services whose certificates a step changes.
// Certificates are replaced after half of it.
const certificateTTL = 10 * time.Second

// shortLived lists the services whose certificates a timeline changes.
func shortLived(c *resilience.Scenario) map[string]bool {
	out := map[string]bool{}
	for _, step := range c.Timeline.Steps {
		if a, ok := step.Action.(*fault.Certificates); ok {
			out[a.Service] = true
		}
	}
	return out
}

// expires reports whether a step of the timeline lets certificates expire, which takes the control
// plane away.
func expires(t *fault.Timeline) bool {
	for _, step := range t.Steps {
		if a, ok := step.Action.(*fault.Certificates); ok && a.Do == fault.DoExpire {
			return true
		}
	}
	return false
}

func (r *performer) Certificates(a *fault.Certificates) error {
	return r.prepared(r.certificates(r.ctx, a))
}

// certificates waits for the continuous certificate rotation, or lets certificates expire.
func (h *executor) certificates(ctx context.Context, c *fault.Certificates) (*execution, error) {
	m, ok := able[mesh.CertificateReader](h.scene)
	if !ok {
		return nil, fmt.Errorf("the proxies of mesh %s do not expose their certificates, so a change cannot be proved", h.scene.mesh.Name())
	}
	pods, err := h.choose(c.Service, fault.All)
	if err != nil {
		return nil, err
	}
	if c.Do == fault.DoExpire {
		return h.expire(ctx, c, m, pods)
	}
	var before []mesh.Certificate
	return &execution{
		target: c.Service,
		begin: func(ctx context.Context) error {
			before, err = h.shown(ctx, m, pods)
			return err
		},
		prove: func(ctx context.Context) (string, error) {
			begin := time.Now()
			err := h.untilShown(ctx, m, pods, func(i int, c mesh.Certificate) bool { return c.Serial != before[i].Serial && !c.ExpiredAt(time.Now()) })
			if err != nil {
				return "", fmt.Errorf("not every proxy of %s shows a new certificate: %w", c.Service, err)
			}
			return fmt.Sprintf("new certificates at %s of %s, %.1f s later, valid for %v", words.Plural(len(pods), "proxy"), c.Service, time.Since(begin).Seconds(), certificateTTL), nil
		},
	}, nil
}

// expire takes away the issuer of certificates until they have expired.
func (h *executor) expire(ctx context.Context, c *fault.Certificates, m mesh.CertificateReader, pods []*resident) (*execution, error) {
	away, err := h.process(ctx, &fault.Process{Of: fault.OfControlPlane, Do: fault.DoKill}, h.timeline.Duration)
	if err != nil {
		return nil, err
	}
	away.target = c.Service
	away.prove = func(ctx context.Context) (string, error) {
		if err := h.untilShown(ctx, m, pods, func(_ int, c mesh.Certificate) bool { return c.ExpiredAt(time.Now()) }); err != nil {
			return "", fmt.Errorf("not every certificate of %s has expired: %w", c.Service, err)
		}
		return fmt.Sprintf("the certificates of %s of %s have expired", words.Plural(len(pods), "proxy"), c.Service), nil
	}
	return away, nil
}

// shown reads the certificates that proxies present.
func (h *executor) shown(ctx context.Context, m mesh.CertificateReader, pods []*resident) ([]mesh.Certificate, error) {
	out := make([]mesh.Certificate, len(pods))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(leverMany)
	for i, r := range pods {
		group.Go(func() error {
			answer, err := h.admin(r).Get(ctx, m.CertificatePath(), nil)
			if err == nil {
				out[i], err = m.Certificate(answer)
			}
			if err != nil {
				return fmt.Errorf("certificate of the proxy of %s: %w", r.Name, err)
			}
			return nil
		})
	}
	return out, group.Wait()
}

func (h *executor) untilShown(ctx context.Context, m mesh.CertificateReader, pods []*resident, right func(int, mesh.Certificate) bool) error {
	for {
		now, err := h.shown(ctx, m, pods)
		if err == nil {
			all := true
			for i, c := range now {
				all = all && right(i, c)
			}
			if all {
				return nil
			}
		}
		if stop := wake.Pause(ctx, leverEvery); stop != nil {
			if err != nil {
				return err
			}
			return stop
		}
	}
}
