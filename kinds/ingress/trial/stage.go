// Package trial runs trials of gateways: it creates a Gateway with its listeners, certificates and
// routes (world.go), adds routes in the window and has a pod request them (trial.go), and deletes
// everything again.
package trial

import (
	"context"
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	xdscontrol "github.com/meshtrial/meshtrial/drive/xds/control"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/kinds/ingress"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// Kind runs trials of gateways.
var Kind runner.Kind = kind{}

type kind struct{}

// Check implements [runner.Kind]: the study's own checks find everything.
func (kind) Check(*study.Plan) error { return nil }

// Fit implements [runner.Kind].
func (kind) Fit(ctx context.Context, o *runner.Options, plan *study.Plan) ([]record.Component, error) {
	var out []record.Component
	for _, name := range ingress.Ingresses(plan) {
		of, ok := o.Ingresses[name]
		if !ok {
			return nil, fmt.Errorf("no adapter for ingress %s", name)
		}
		found, err := of.CheckIngress(ctx, o.Lab.RESTConfig())
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// Changes implements [runner.Kind]: an ingress may run its proxies in its own namespace.
func (kind) Changes(_ context.Context, o *runner.Options, plan *study.Plan) (out []journal.Planned, err error) {
	for _, name := range ingress.Ingresses(plan) {
		if of := o.Ingresses[name]; of != nil {
			if namespace := of.GatewayProxies("", "").Namespace; namespace != "" {
				out = append(out, journal.Planned{Object: "Deployments and Services of gateways in namespace " + namespace, Done: journal.Made,
					Note: "the ingress creates them for each trial's Gateway, and deletes them with it"})
			}
		}
	}
	return out, nil
}

// Remains implements [runner.Kind]: everything is in the namespace, or deleted by the ingress with it.
func (kind) Remains(context.Context, *rest.Config) error { return nil }

// roleBackend is the name of the pod behind the routes, and of its Service.
const roleBackend = "backend"

// stage is what trials share in the cluster: the pod that requests routes and the one that serves
// them.
type stage struct {
	*site.Site
	d       runner.Deployment
	objects dynamic.Interface
	prober  site.Pod
	api     *xdscontrol.Client
	backend site.Pod
}

// Deploy implements [runner.Kind].
func (kind) Deploy(ctx context.Context, d runner.Deployment) (runner.Stage, error) {
	s, err := site.New(d.Lab, d.Mesh, d.RunID)
	if err != nil {
		return nil, err
	}
	config := d.Lab.RESTConfig()
	st := &stage{Site: s, d: d}
	st.Note = func(text string) { d.Tell(runner.Event{Stage: "deploy", Text: text}) }
	if st.objects, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	d.Tell(runner.Event{Stage: "deploy", Text: "deploying the pod behind the routes and the one that requests them"})
	if err = st.CreateNamespace(ctx, string(ingress.Kind)); err == nil {
		if err = st.create(ctx); err == nil {
			err = st.find(ctx)
		}
	}
	if err != nil {
		return nil, runner.Removed(err, st.Site.Remove(ctx))
	}
	return st, nil
}

// create creates the observers and both pods.
func (st *stage) create(ctx context.Context) error {
	if err := st.CreateObservers(ctx); err != nil {
		return err
	}
	images := st.d.Lab.Images()
	prober := site.RolePod(site.RoleXDS, st.Run, corev1.Container{
		Name: site.RoleXDS,
		Args: []string{"xds", "--control", "127.0.0.1:" + strconv.Itoa(site.XDSControlPort), "--alone", site.Alone.String()},
	}, images)
	// With a small share its requests would be late while a control plane uses every CPU.
	prober.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("300m")
	backend := site.WorkerPod(mesh.Workload{Name: roleBackend, Namespace: st.Namespace, ControlPort: site.WorkerControlPort}, images, st.Run)
	for name, pod := range map[string]corev1.PodTemplateSpec{site.RoleXDS: prober, roleBackend: backend} {
		d := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: st.Namespace, Labels: site.Labels(st.Run, name)},
			Spec:       appsv1.DeploymentSpec{Replicas: site.Ptr(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{mesh.AppLabel: name}}, Template: pod},
		}
		if _, err := st.Kube.AppsV1().Deployments(st.Namespace).Create(ctx, d, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create Deployment %s: %w", name, err)
		}
	}
	st.KeepAlive(site.RoleXDS, site.XDSControlPort, "")
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: roleBackend, Namespace: st.Namespace, Labels: site.Labels(st.Run, roleBackend)},
		Spec: corev1.ServiceSpec{Selector: map[string]string{mesh.AppLabel: roleBackend},
			Ports: []corev1.ServicePort{{Name: "http", Port: httpPort, TargetPort: intstr.FromInt(protocol.Of(protocol.HTTP1).Plain.Port)}}},
	}
	if _, err := st.Kube.CoreV1().Services(st.Namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create Service %s: %w", roleBackend, err)
	}
	return nil
}

// find waits for the pods and connects to them.
func (st *stage) find(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, site.ReadyTimeout)
	defer cancel()
	for _, name := range []string{site.RoleXDS, roleBackend} {
		if err := lab.WaitDeployment(limited, st.Kube, st.Namespace, name); err != nil {
			return st.SeeEvents(err)
		}
	}
	if err := st.AwaitObservers(limited); err != nil {
		return st.SeeEvents(err)
	}
	pods, err := st.ReadyPods(ctx)
	if err != nil {
		return err
	}
	for name, to := range map[string]*site.Pod{site.RoleXDS: &st.prober, roleBackend: &st.backend} {
		if pods[name] == nil {
			return st.SeeEvents(fmt.Errorf("no pod of %s is ready any more", name))
		}
		*to = site.PodOf(pods[name])
	}
	st.api = xdscontrol.NewClient(lab.InPod, st.HTTP(pods[site.RoleXDS], site.XDSControlPort))
	for { // ready pods may take a moment to be reached
		if _, err = st.api.Version(limited); err == nil {
			return nil
		}
		if wake.Pause(limited, 200*time.Millisecond) != nil {
			return fmt.Errorf("reach the pod that requests routes: %w", err)
		}
	}
}

// Place implements [runner.Stage].
func (st *stage) Place() *site.Site { return st.Site }

// Pods implements [runner.Stage].
func (st *stage) Pods() []site.Pod { return nil }

// Reconnect implements [runner.Stage].
func (st *stage) Reconnect(ctx context.Context) error {
	if err := st.TakenAway(ctx); err != nil {
		return err
	}
	st.Redial()
	return st.find(ctx)
}

// Remove implements [runner.Stage].
func (st *stage) Remove(ctx context.Context) error { return st.Site.Remove(ctx) }

// say reports a step of a trial.
func (st *stage) say(format string, args ...any) {
	st.d.Tell(runner.Event{Stage: "step", Text: fmt.Sprintf(format, args...)})
}
