package detached

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/lazyregexp"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/rights"
)

// Kept is what a run's pods report about it, in a ConfigMap that outlives them.
type Kept struct {
	// Attempts counts the pods so far, Trials the trials in the run directory.
	Attempts int `json:"attempts"`
	Trials   int `json:"trials"`
	// Lost counts the pods that ended without a report since the run's last trial.
	Lost int `json:"lost,omitempty"`
	// Exit is the exit code of the last pod; nil while one is active.
	Exit *int `json:"exit,omitempty"`
	// Error is the error of the last pod.
	Error string `json:"error,omitempty"`
	// Final means that no other pod should follow. The key is kept for runs of earlier versions.
	Final bool `json:"hopeless,omitempty"`
}

const keptKey = "run.json"

func readKept(c *corev1.ConfigMap) (k Kept) {
	if c != nil {
		_ = json.Unmarshal([]byte(c.Data[keptKey]), &k) // there is none before the first pod
	}
	return k
}

// State is the state of a run.
type State string

// States of runs.
const (
	Waiting   State = "waiting" // for a pod, or its image
	Running   State = "running"
	Moving    State = "moving"    // a pod has ended, and the next one does not exist yet
	Completed State = "completed" // whatever the verdict: Run.Exit
	Failed    State = "failed"
	Stopped   State = "stopped" // by `meshtrial runs delete`, which has not finished
	NoJob     State = "no job"  // only its rights exist: it is starting, or the starting process was killed
)

// Run is a detached run.
type Run struct {
	Name      string    `json:"run"`
	Study     string    `json:"study"`
	Namespace string    `json:"namespace"`
	Since     time.Time `json:"since"`
	State     State     `json:"state"`
	Results   string    `json:"results"`
	Fetched   bool      `json:"fetched"`
	Kept

	anchor   string
	template corev1.PodTemplateSpec
	atWork   bool // one of its pods has not ended, or may still be starting
}

// Ended reports whether no pod is active and none will follow. A pod that was told to stop is
// still reverting its changes.
func (r Run) Ended() bool {
	return r.State == Completed || r.State == Failed || (r.State == Stopped || r.State == NoJob) && !r.atWork
}

// Patterns of the names of studies and runs ([runner.NewRunID]). Anyone who may create Jobs
// chooses the names that are read here, and folders are named after them.
var (
	reStudy = lazyregexp.New(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	reRun   = lazyregexp.New(`^[0-9]{8}-[0-9]{6}-[0-9a-f]{4}$`)
)

// ours reports whether a Job may have been created by [Cluster.Start].
func (j *job) ours() bool {
	m := j.Metadata
	run := m.Labels[Label]
	readable := strings.IndexFunc(m.Annotations[resultsAnnotation], func(r rune) bool { return !unicode.IsPrint(r) }) < 0
	return readable && reRun.MatchString(run) && reStudy.MatchString(m.Annotations[studyAnnotation]) && m.Name == objectName(run)
}

// job has the fields that are read of a run's Job.
type job struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Suspend  bool                   `json:"suspend"`
		Template corev1.PodTemplateSpec `json:"template"`
	} `json:"spec"`
	Status struct {
		Conditions []struct {
			Type   string                 `json:"type"`
			Status corev1.ConditionStatus `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

func (j *job) is(condition string) bool {
	for _, c := range j.Status.Conditions {
		if c.Type == condition && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// run combines a run's Job, the newest of its pods (nil if none) and their reports.
func (j *job) run(pod *corev1.Pod, kept Kept) Run {
	m := j.Metadata
	r := Run{Name: m.Labels[Label], Study: m.Annotations[studyAnnotation], Namespace: m.Namespace, Since: m.CreationTimestamp.Time, Results: m.Annotations[resultsAnnotation],
		Fetched: m.Annotations[fetchedAnnotation] != "", Kept: kept, anchor: m.Annotations[anchorAnnotation], template: j.Spec.Template}
	answered := kept.Exit != nil && (*kept.Exit == errs.CodeAssertion || *kept.Exit == errs.CodeInvalid)
	switch {
	case j.is("Complete"), j.is("Failed") && answered:
		r.State = Completed
	case j.is("Failed"):
		r.State = Failed
	case j.Spec.Suspend || m.DeletionTimestamp != nil:
		r.State = Stopped
	case pod == nil && kept.Attempts == 0:
		r.State = Waiting
	case pod != nil && over(pod) && (answered || kept.Final || kept.Exit != nil && (*kept.Exit == errs.CodeOK || *kept.Exit == errs.CodeUsage)):
		r.State = Running // its Job has not reported its end yet
	case pod == nil || over(pod) || pod.DeletionTimestamp != nil:
		r.State = Moving
	case pod.Status.Phase == corev1.PodRunning:
		r.State = Running
	default:
		r.State = Waiting
	}
	return r
}

// Why returns why a run failed or was stopped; "" if unknown.
func (r Run) Why() string {
	switch {
	case r.Exit != nil:
		return r.Error
	case r.State == Failed && r.Attempts > 0:
		return fmt.Sprintf("its last pod, number %d, ended without output, as when a pod is killed or its node is lost", r.Attempts)
	case r.State == Failed:
		return "none of its pods got far enough to report anything"
	}
	return ""
}

// over reports whether a pod's container has ended for good.
func over(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// seen is a run with its pods.
type seen struct {
	Run
	pod  *corev1.Pod
	pods []corev1.Pod // of the run itself
}

// look reads the runs of a namespace ("" for all), optionally only those of one name.
func (c *Cluster) look(ctx context.Context, namespace, name string) ([]seen, error) {
	selector := Label
	if name != "" {
		selector += "=" + name
	}
	jobs, err := c.jobs(ctx, namespace, selector)
	if err != nil {
		return nil, c.refused(err)
	}
	pods, err := c.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector + "," + partLabel + "=" + partRun})
	if err != nil {
		return nil, c.refused(fmt.Errorf("list the pods of detached runs: %w", err))
	}
	states, err := c.kube.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, c.refused(fmt.Errorf("read the progress of detached runs: %w", err))
	}
	var out []seen
	for i := range jobs {
		out = append(out, jobs[i].with(pods.Items, states.Items))
	}
	slices.SortFunc(out, func(a, b seen) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// refused adds a hint to a refusal: many users may read only some namespaces.
func (c *Cluster) refused(err error) error {
	if apierrors.IsForbidden(err) {
		return errs.WithHint(err, "name the namespace of the runs with -n; meshtrial cluster check --feature %q%s lists the rights", rights.DetachedRuns, c.words)
	}
	return err
}

// jobs returns the Jobs of detached runs.
func (c *Cluster) jobs(ctx context.Context, namespace, selector string) ([]job, error) {
	list, err := c.objects.Resource(resources["Job"]).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list detached runs: %w", err)
	}
	var out []job
	for i := range list.Items {
		var j job
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &j); err != nil {
			return nil, fmt.Errorf("Job %s: %w", list.Items[i].GetName(), err)
		}
		if j.ours() {
			out = append(out, j)
		}
	}
	return out, nil
}

// with finds a run's pods and state among those of all runs.
func (j *job) with(pods []corev1.Pod, states []corev1.ConfigMap) (s seen) {
	m := j.Metadata
	for i := range pods {
		if p := &pods[i]; p.Namespace == m.Namespace && p.Labels[Label] == m.Labels[Label] {
			s.pods = append(s.pods, *p)
			if s.pod == nil || s.pod.CreationTimestamp.Before(&p.CreationTimestamp) {
				s.pod = p
			}
		}
	}
	var kept Kept
	for i := range states {
		if states[i].Namespace == m.Namespace && states[i].Name == stateName(m.Labels[Label]) {
			kept = readKept(&states[i])
		}
	}
	s.Run = j.run(s.pod, kept)
	s.atWork = slices.ContainsFunc(s.pods, func(p corev1.Pod) bool { return !over(&p) })
	return s
}

// List returns the runs of a namespace, "" for all, ordered by start.
func (c *Cluster) List(ctx context.Context, namespace string) ([]Run, error) {
	all, err := c.look(ctx, namespace, "")
	out := []Run{}
	for i := range all {
		out = append(out, all[i].Run)
	}
	if err != nil {
		return out, err
	}
	jobless, err := c.jobless(ctx, namespace, out)
	out = append(out, jobless...)
	slices.SortFunc(out, func(a, b Run) int { return strings.Compare(a.Name, b.Name) })
	return out, err
}

// Find returns the run with the given name. Without a name it returns the only run, or the
// only one that has not ended.
func (c *Cluster) Find(ctx context.Context, namespace, name string) (Run, error) {
	all, err := c.List(ctx, namespace)
	if err != nil {
		return Run{}, err
	}
	return choose(all, name)
}

func choose(all []Run, name string) (Run, error) {
	if i := slices.IndexFunc(all, func(r Run) bool { return r.Name == name }); i >= 0 {
		return all[i], nil
	}
	if len(all) == 0 {
		return Run{}, errs.WithHint(errs.Usage("there are no detached runs"), "meshtrial run STUDY --detach starts one; --lab and --kubeconfig choose the cluster that is searched")
	}
	open := slices.DeleteFunc(slices.Clone(all), Run.Ended)
	var names []string
	for _, r := range all {
		names = append(names, fmt.Sprintf("%s (%s, %s)", r.Name, r.Study, r.State))
	}
	switch {
	case name != "":
		return Run{}, errs.WithHint(errs.Usage("there is no detached run %s", name), "there are: %s", strings.Join(names, ", "))
	case len(all) == 1:
		return all[0], nil
	case len(open) == 1:
		return open[0], nil
	}
	return Run{}, errs.WithHint(errs.Usage("which of %d detached runs?", len(all)), "there are: %s", strings.Join(names, ", "))
}

// Reporter records a run's progress for those who attach to it. A failed write is retried with
// the next one, and does not fail the run. It writes only during calls, so that no write is in
// progress when the next trial starts.
type Reporter struct {
	patch func(ctx context.Context, data []byte) error
	run   string
	kept  Kept
}

// reportLimit limits the wait for a write, and lastLimit that for the last one.
const (
	reportLimit = 5 * time.Second
	reportAgain = 2 * time.Second
	lastLimit   = time.Minute
)

// NewReporter starts reporting for an attempt of a run.
func NewReporter(ctx context.Context, kube kubernetes.Interface, namespace, run string) (*Reporter, error) {
	found, err := kube.CoreV1().ConfigMaps(namespace).Get(ctx, stateName(run), metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the progress of run %s: %w", run, err)
	}
	was := readKept(found)
	now := Kept{Attempts: was.Attempts + 1, Trials: was.Trials, Lost: was.Lost}
	if was.Attempts > 0 && was.Exit == nil {
		now.Lost++
	}
	r := &Reporter{run: run, kept: now, patch: func(ctx context.Context, data []byte) error {
		_, err := kube.CoreV1().ConfigMaps(namespace).Patch(ctx, stateName(run), types.MergePatchType, data, metav1.PatchOptions{FieldManager: journal.FieldManager})
		return err
	}}
	r.write(ctx, reportLimit)
	return r, nil
}

// write retries until the limit or the end of ctx.
func (r *Reporter) write(ctx context.Context, limit time.Duration) {
	text, err := json.Marshal(r.kept)
	if err != nil {
		return // numbers and a string always encode
	}
	data, err := json.Marshal(map[string]any{"data": map[string]string{keptKey: string(text)}})
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		once, end := context.WithTimeout(ctx, reportLimit)
		err := r.patch(once, data)
		end()
		if err == nil || apierrors.IsForbidden(err) || wake.Pause(ctx, reportAgain) != nil {
			return
		}
	}
}

// Again reports whether this is a later attempt of the run.
func (r *Reporter) Again() bool { return r.kept.Attempts > 1 }

// Has records the number of trials of the run.
func (r *Reporter) Has(ctx context.Context, trials int) {
	r.kept.Trials = trials
	r.write(ctx, reportLimit)
}

// mostLost is how many pods may be lost without a report and without another trial. The Job
// does not count pods that a node evicts, for example for lack of memory, and would replace
// them forever. mostReverting is how many more may be lost while they revert what those left
// behind.
const mostLost, mostReverting = 5, 3

// Exhausted returns an error if the next attempt would end like the previous ones.
func (r *Reporter) Exhausted() error {
	if r.kept.Lost < mostLost {
		return nil
	}
	return Final(errs.WithHint(fmt.Errorf("the last %d pods of the run were killed or evicted before they completed another trial", r.kept.Lost),
		"the namespace's events or the pods' status show why (nodes may lack memory or disk); meshtrial runs fetch %s fetches what was measured, which can be resumed", r.run))
}

// Reverts reports whether the pod of an exhausted run should revert what the previous ones left
// behind: not if several were lost while doing so.
func (r *Reporter) Reverts() bool { return r.kept.Lost < mostLost+mostReverting }

// Final gives an attempt's error the exit code at which the Job creates no further pod. It
// returns nil if err is nil.
func Final(err error) error { return errs.WithCode(err, codeFinal) }

// Trial records one more trial of the run.
func (r *Reporter) Trial(ctx context.Context) {
	r.kept.Trials++
	r.kept.Lost = 0
	r.write(ctx, reportLimit)
}

// End records the attempt's exit code, even after ctx has ended. A run whose error is [Final] has
// failed.
func (r *Reporter) End(ctx context.Context, err error) {
	code := errs.Code(err)
	if r.kept.Final = code == codeFinal; r.kept.Final {
		code = errs.CodeFailure
	}
	r.kept.Exit = &code
	if err != nil {
		r.kept.Error = err.Error()
	}
	r.write(context.WithoutCancel(ctx), lastLimit)
}
