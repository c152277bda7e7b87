package trial

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/kinds/dataplane/verdict"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Servers outside the mesh are pods that are not in the mesh, and clients do not use their Services:
//
//   - A server at an unknown address is found at a port of its node. A mesh knows Services and pods,
//     but no addresses of nodes: istiod omits those of pods in the host's network.
//   - A server with a ServiceEntry has a virtual address, which only the mesh knows. Proxies forward
//     requests to the entry's endpoint, the server's Service by address or by name, and do not look
//     that up in the mesh again.

// virtualPrefix is that of TEST-NET-2 (RFC 5737): no network uses it.
const virtualPrefix = "198.51.100."

// nodePorts is where a server at an unknown address is found: an address of its node, and the node's
// ports by the worker's.
type nodePorts struct {
	node  string
	ports map[int]int
}

// outsideOf returns how clients reach the server of a variant outside the mesh; nil for others.
func outsideOf(v dataplane.Variant) *mesh.Outside {
	if v.Outside == "" {
		return nil
	}
	return &mesh.Outside{Destination: v.Outside, Bypass: v.Bypass()}
}

// nameOutside names the servers outside the mesh, and gives each a virtual address.
func (t topology) nameOutside() {
	for i, w := range t.outside() {
		w.Outside.Host = w.Name + "." + w.Namespace + ".test"
		w.Outside.Name = hostOf(w)
		w.Outside.Virtual = fmt.Sprintf("%s%d", virtualPrefix, i+1)
	}
}

func (t topology) outside() []mesh.Workload {
	var out []mesh.Workload
	for _, w := range t.servers {
		if w.Outside != nil {
			out = append(out, w)
		}
	}
	slices.SortFunc(out, func(a, b mesh.Workload) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// outsideAliases resolves the names of servers with ServiceEntries to their virtual addresses.
func (t topology) outsideAliases() []corev1.HostAlias {
	var out []corev1.HostAlias
	for _, w := range t.outside() {
		if w.Outside.Destination != study.DestinationOutside {
			out = append(out, corev1.HostAlias{IP: w.Outside.Virtual, Hostnames: []string{w.Outside.Host}})
		}
	}
	return out
}

// locate records where the Service of a server outside the mesh is.
func (d *deployed) locate(s *corev1.Service) {
	for _, w := range d.outside() {
		if w.Name != s.Name {
			continue
		}
		w.Outside.Address = s.Spec.ClusterIP
		if w.Outside.Destination == study.DestinationOutside {
			ports := map[int]int{}
			for _, p := range s.Spec.Ports {
				ports[int(p.Port)] = int(p.NodePort)
			}
			d.nodePorts[w.Name] = ports
		}
	}
}

// placeOf returns where a server at an unknown address is found; nil for others.
func (d *deployed) placeOf(server *workerRole) *nodePorts {
	ports, ok := d.nodePorts[server.Name]
	if !ok {
		return nil
	}
	return &nodePorts{node: server.pod.NodeAddress, ports: ports}
}

// Limits of the requests that show that clients reach a server outside the mesh.
const (
	reachFor     = 300 * time.Millisecond
	reachRate    = 20
	reachTimeout = 2 * time.Second
	reachLimit   = 30 * time.Second
)

// reachOutside waits until the clients of each cell outside the mesh get responses from its server:
// proxies may not have its entry yet, or not have resolved its name. A server that is still not
// reached ends the run before its first trial.
func (d *deployed) reachOutside(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for client, generators := range d.loads {
		group.Go(func() error { // a generator sends to one server at a time
			reached := map[dataplane.Variant]bool{}
			for _, cell := range d.cells {
				for repeat := range 2 { // the second turn of a baseline has pods of its own
					to := dataplane.ServerVariant(cell).For(repeat)
					server := d.workers[to]
					if !study.Outside(cell) || dataplane.ClientVariant(cell).For(repeat) != client || server == nil || reached[to] {
						continue
					}
					reached[to] = true
					for _, generator := range generators {
						if err := d.reach(ctx, reachLimit, cell, generator, server); err != nil {
							return err
						}
					}
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// reach sends a few requests of a cell until all are answered, or the time is over.
func (d *deployed) reach(ctx context.Context, limit time.Duration, cell record.Cell, client *loadRole, server *workerRole) error {
	spec, err := loadSpec(d.o.Study, cell, url(server.Workload, d.placeOf(server), cell, d.o.Study.Load), 1)
	if err != nil {
		return err
	}
	spec.Connections, spec.RepeatS, spec.Arrival, spec.TimeoutS = 1, 0, load.Uniform, reachTimeout.Seconds()
	spec.Rate, spec.DurationS, spec.IntervalS = reachRate, reachFor.Seconds(), reachFor.Seconds()
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var last error
	for {
		err := d.tryReach(limited, client, spec)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if last == nil || limited.Err() == nil { // else the end of the wait would appear as the cause
			last = err
		}
		if wake.Pause(limited, toldLook) != nil {
			return errs.WithHint(fmt.Errorf("cell %s: for %v no requests of %s reached the server outside the mesh, %s: %w", cell.Key(), limit, client.pod.Name, server.Name, last),
				"%s", reachHint(cell, d.Namespace, server.Outside))
		}
	}
}

// tryReach makes one attempt, and returns what failed.
func (d *deployed) tryReach(ctx context.Context, client *loadRole, spec load.Spec) error {
	started, err := client.api.Start(ctx, spec)
	if err != nil {
		return err
	}
	result, err := client.api.Result(ctx, started.Run)
	if err != nil {
		return err
	}
	total := result.Total()
	if total.Completed > 0 && total.Completed == total.Scheduled {
		return nil
	}
	return fmt.Errorf("of %d requests %d were answered%s", total.Scheduled, total.Completed, verdict.KindsOf(total.Failed))
}

// reachHint says what the request path of a cell depends on.
func reachHint(cell record.Cell, namespace string, o *mesh.Outside) string {
	switch o.Destination {
	case study.DestinationOutside:
		if cell[study.FactorSidecars] == study.SidecarsNone {
			return "pods must be able to connect to ports of their nodes (30000 to 32767)"
		}
		return "the mesh must let requests pass to unknown addresses (meshConfig.outboundTrafficPolicy.mode: ALLOW_ANY), and pods must be able to connect to ports of their nodes (30000 to 32767)"
	case study.DestinationStatic:
		return fmt.Sprintf("kubectl -n %s get serviceentries shows what the mesh should know", namespace)
	case study.DestinationEgress:
		return fmt.Sprintf("check that %s resolves, and that the gateway has its listeners: istioctl -n %s proxy-config listeners deploy/gateway", o.Name, namespace)
	}
	return fmt.Sprintf("check that %s resolves in the cluster", o.Name)
}
