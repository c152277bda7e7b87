package detached

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/internal/podwait"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/run/site"
)

// ControlPort is the port of the results role's control server, on its pod's loopback.
const ControlPort = 15997

const (
	archivePath = "/v1/run"
	removePath  = "/v1/remove"
	maxAnswer   = 1 << 20
)

// Server serves a run directory, and removes it.
type Server struct {
	Dir   string
	Alive *jsonhttp.Alive
	l     net.Listener
}

// NewServer listens on a loopback address.
func NewServer(dir, address string, alive *jsonhttp.Alive) (*Server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, errs.WithCode(fmt.Errorf("results: %w", err), errs.CodeUsage)
	}
	return &Server{Dir: dir, Alive: alive, l: l}, nil
}

// Address returns the listening address.
func (s *Server) Address() string { return s.l.Addr().String() }

// Serve handles requests until ctx ends.
func (s *Server) Serve(ctx context.Context) error {
	return jsonhttp.Server{Name: "results", Handler: s.handler(), MaxRequest: 1 << 10, Alive: s.Alive}.Serve(ctx, s.l)
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+archivePath, func(w http.ResponseWriter, r *http.Request) {
		if _, err := os.Stat(s.Dir); err != nil {
			jsonhttp.Refuse(w, http.StatusNotFound, err)
			return
		}
		w.Header().Set("Content-Type", "application/x-tar")
		if err := Pack(heard{w, s.Alive}, s.Dir); err != nil {
			panic(http.ErrAbortHandler) // the archive has started: truncate it
		}
	})
	mux.HandleFunc("POST "+removePath, func(w http.ResponseWriter, r *http.Request) {
		if err := os.RemoveAll(s.Dir); err != nil {
			jsonhttp.Fail(w, err)
			return
		}
		jsonhttp.Answer(w, struct{}{})
	})
	return mux
}

// heard counts reads as signs of life.
type heard struct {
	io.Writer
	alive *jsonhttp.Alive
}

func (h heard) Write(b []byte) (int, error) {
	n, err := h.Writer.Write(b)
	if err == nil {
		h.alive.Heard()
	}
	return n, err
}

// reader is a pod with a run's volume, and the connection to it.
type reader struct {
	jsonhttp.Client
	dialer *lab.Dialer
	end    func(context.Context) error // deletes the pod
	quiet  func()                      // stops the signs of life; nil: there are none
}

// The interval of signs of life to a reading pod, which continue during a transfer: a
// single file may take minutes.
const (
	beatEvery = 10 * time.Second
	beatTime  = 5 * time.Second
)

// beat sends signs of life to the pod until ctx ends or [reader.close] stops it.
func (r *reader) beat(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var beats sync.WaitGroup
	beats.Go(func() {
		for wake.Pause(ctx, beatEvery) == nil {
			once, end := context.WithTimeout(ctx, beatTime)
			_ = r.StillHere(once) // the next one will do
			end()
		}
	})
	r.quiet = func() { cancel(); beats.Wait() }
}

func (r *reader) close(ctx context.Context) error {
	if r.quiet != nil {
		r.quiet()
	}
	ctx, cancel := ending.Within(ctx, undoLimit)
	defer cancel()
	return errors.Join(r.dialer.Close(), r.end(ctx))
}

// open creates a pod that reads a run's volume. The pod ends by itself without signs of
// life.
func (c *Cluster) open(ctx context.Context, r Run, tell func(string)) (*reader, error) {
	pods := c.kube.CoreV1().Pods(r.Namespace)
	anchor, err := c.objects.Resource(resources["ClusterRole"]).Get(ctx, r.anchor, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", r.Name, err)
	}
	pod, err := readerPod(r)
	if err != nil {
		return nil, err
	}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: rbacGroup + "/v1", Kind: "ClusterRole", Name: r.anchor, UID: anchor.GetUID()}}
	made, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create a pod that reads the results of run %s: %w", r.Name, err)
	}
	out := &reader{dialer: lab.NewDialer(c.config)}
	out.end = func(ctx context.Context) error {
		err := pods.Delete(ctx, made.Name, metav1.DeleteOptions{GracePeriodSeconds: site.Ptr(int64(0))})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	tell("waiting for a pod that reads the results")
	if err := c.await(ctx, made); err != nil {
		return nil, errors.Join(fmt.Errorf("the pod that reads the results of run %s: %w", r.Name, err), out.close(ctx))
	}
	out.Client = jsonhttp.Client{HTTPClient: out.dialer.Role(made.Namespace, made.Name, ControlPort), BaseURL: lab.InPod, Name: "results", MaxAnswer: maxAnswer}
	out.beat(ctx)
	return out, nil
}

// readerPod returns the pod that reads a run's volume. It has the image and the pull secret
// of the run's own pods, but no rights.
func readerPod(r Run) (*corev1.Pod, error) {
	spec := *r.template.Spec.DeepCopy()
	if len(spec.Containers) != 1 {
		return nil, fmt.Errorf("the Job of run %s was changed: %d containers", r.Name, len(spec.Containers))
	}
	container := &spec.Containers[0]
	container.Name, container.Env, container.Resources = partReader, nil, site.Requests("10m", "32Mi")
	container.Args = []string{"detached-results", "--dir", Dir(r.Name), "--control", "127.0.0.1:" + strconv.Itoa(ControlPort), "--alone", site.Alone.String()}
	var volumes []corev1.Volume
	for _, v := range spec.Volumes {
		if v.Name == resultsVolume {
			volumes = append(volumes, v)
		}
	}
	var mounts []corev1.VolumeMount
	for _, m := range container.VolumeMounts {
		if m.Name == resultsVolume {
			mounts = append(mounts, m)
		}
	}
	spec.Volumes, container.VolumeMounts = volumes, mounts
	spec.ServiceAccountName, spec.DeprecatedServiceAccount, spec.AutomountServiceAccountToken = "", "", site.Ptr(false)
	spec.TerminationGracePeriodSeconds = site.Ptr(int64(1))
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: objectName(r.Name) + "-reader-", Namespace: r.Namespace, Labels: labels(r.Name, partReader), Annotations: r.template.Annotations},
		Spec:       spec,
	}, nil
}

// await waits until a pod is running.
func (c *Cluster) await(ctx context.Context, of *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, site.ReadyTimeout)
	defer cancel()
	return podwait.Until(ctx, c.kube, of.Namespace, "pod "+of.Name, func(ctx context.Context) (podwait.Seen, error) {
		pod, err := c.kube.CoreV1().Pods(of.Namespace).Get(ctx, of.Name, metav1.GetOptions{})
		switch {
		case err != nil:
			return podwait.Seen{}, err
		case over(pod):
			return podwait.Seen{}, fmt.Errorf("it has ended: %s %s", pod.Status.Reason, pod.Status.Message)
		}
		return podwait.Seen{Done: pod.Status.Phase == corev1.PodRunning, State: string(pod.Status.Phase) + why(pod), Pods: []corev1.Pod{*pod}}, nil
	})
}
