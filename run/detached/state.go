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
)

// Kept is what a run's pods say of it, in a ConfigMap that outlives them.
type Kept struct {
	// Attempts counts the pods so far, Trials what is in the run directory.
	Attempts int `json:"attempts"`
	Trials   int `json:"trials"`
	// Lost counts the pods that ended without a word since the run had its last trial.
	Lost int `json:"lost,omitempty"`
	// Exit is the code that the last pod ended with; nil while one is at work.
	Exit *int `json:"exit,omitempty"`
	// Error is what it ended for.
	Error string `json:"error,omitempty"`
	// Hopeless says that no other pod is to follow it.
	Hopeless bool `json:"hopeless,omitempty"`
}

const keptKey = "run.json"

func readKept(c *corev1.ConfigMap) (k Kept) {
	if c != nil {
		_ = json.Unmarshal([]byte(c.Data[keptKey]), &k) // before the first pod there is none
	}
	return k
}

// State is how a run stands.
type State string

// States of runs.
const (
	Waiting   State = "waiting" // for a pod, or for its image
	Running   State = "running"
	Moving    State = "moving"    // a pod is over, and the next one not yet there
	Completed State = "completed" // whatever the verdict: Run.Exit
	Failed    State = "failed"
	Stopped   State = "stopped" // by `meshtrial runs delete`, which has not come to its end
	NoJob     State = "no job"  // it has rights alone: it is being begun, or whoever began it was killed
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
	atWork   bool // one of its pods is not over, or it may still be being begun
}

// Ended says that no pod is at work, and none comes any more. One that was told to stop
// still puts back what it changed.
func (r Run) Ended() bool {
	return r.State == Completed || r.State == Failed || (r.State == Stopped || r.State == NoJob) && !r.atWork
}

// What the names of studies and of runs look like ([runner.NewRunID]). Whoever may make
// Jobs chooses those that are read here, and folders are called by them.
var (
	reStudy = lazyregexp.New(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	reRun   = lazyregexp.New(`^[0-9]{8}-[0-9]{6}-[0-9a-f]{4}$`)
)

// ours says that a Job may be one that [Cluster.Start] has made.
func (j *job) ours() bool {
	m := j.Metadata
	run := m.Labels[Label]
	readable := strings.IndexFunc(m.Annotations[resultsAnnotation], func(r rune) bool { return !unicode.IsPrint(r) }) < 0
	return readable && reRun.MatchString(run) && reStudy.MatchString(m.Annotations[studyAnnotation]) && m.Name == objectName(run)
}

// job is what is read of a run's Job.
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

// run is what is known of one, by its Job, the newest of its pods (nil: none) and what
// these keep of it.
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
	case pod != nil && over(pod) && (answered || kept.Hopeless || kept.Exit != nil && (*kept.Exit == errs.CodeOK || *kept.Exit == errs.CodeUsage)):
		r.State = Running // its Job has yet to say that it is over
	case pod == nil || over(pod) || pod.DeletionTimestamp != nil:
		r.State = Moving
	case pod.Status.Phase == corev1.PodRunning:
		r.State = Running
	default:
		r.State = Waiting
	}
	return r
}

// Why says what a run ended for that has failed, or was stopped; "" if it is not known.
func (r Run) Why() string {
	switch {
	case r.Exit != nil:
		return r.Error
	case r.State == Failed && r.Attempts > 0:
		return fmt.Sprintf("the last of its %d pods ended without a word, as one does that is killed or whose node is lost", r.Attempts)
	case r.State == Failed:
		return "none of its pods came so far as to say anything"
	}
	return ""
}

// over says that a pod's container has ended for good.
func over(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// seen is a run with the newest of its pods.
type seen struct {
	Run
	pod  *corev1.Pod
	pods []corev1.Pod // of the run itself
}

// look reads the runs of a namespace ("" for all), those of one name unless that is "".
func (c *Cluster) look(ctx context.Context, namespace, name string) ([]seen, error) {
	selector := Label
	if name != "" {
		selector += "=" + name
	}
	jobs, err := c.jobs(ctx, namespace, selector)
	if err != nil {
		return nil, err
	}
	pods, err := c.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector + "," + partLabel + "=" + partRun})
	if err != nil {
		return nil, fmt.Errorf("list the pods of detached runs: %w", err)
	}
	states, err := c.kube.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("read how far detached runs are: %w", err)
	}
	var out []seen
	for i := range jobs {
		out = append(out, jobs[i].with(pods.Items, states.Items))
	}
	slices.SortFunc(out, func(a, b seen) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// jobs are those of detached runs.
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

// with finds a run's pods and state among those of all.
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

// List reads the runs of a namespace, "" for all, in the order of their begin.
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

// Find is the run of a name; without one the only run, or the only one that has not
// ended.
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
		return Run{}, errs.WithHint(errs.Usage("there are no detached runs"), "meshtrial run STUDY --detach begins one; --lab and --kubeconfig say where it is looked for")
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

// Reporter keeps how far a run is, for whoever attaches to it. What cannot be written
// is written with what comes next, and no failure of the run. It writes while it is called,
// so that no write is under way when the next trial begins.
type Reporter struct {
	patch func(ctx context.Context, data []byte) error
	run   string
	kept  Kept
}

// reportLimit bounds what is waited for a write, and lastLimit that for the end.
const (
	reportLimit = 5 * time.Second
	reportAgain = 2 * time.Second
	lastLimit   = time.Minute
)

// NewReporter begins to report on an attempt of a run.
func NewReporter(ctx context.Context, kube kubernetes.Interface, namespace, run string) (*Reporter, error) {
	found, err := kube.CoreV1().ConfigMaps(namespace).Get(ctx, stateName(run), metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read how far run %s is: %w", run, err)
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

// write tries until the limit, or the end of ctx.
func (r *Reporter) write(ctx context.Context, limit time.Duration) {
	text, err := json.Marshal(r.kept)
	if err != nil {
		return // numbers and a string
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

// Again says that this is not the run's first attempt.
func (r *Reporter) Again() bool { return r.kept.Attempts > 1 }

// Has notes how many trials the run has.
func (r *Reporter) Has(ctx context.Context, trials int) {
	r.kept.Trials = trials
	r.write(ctx, reportLimit)
}

// mostLost is how many pods may be lost without a word, and without a trial more. The Job does
// not count those that a node evicts for want of memory, say: it would make them anew for ever.
// mostPuttingBack is how many more may be lost while they put back what those left.
const mostLost, mostPuttingBack = 5, 3

// Hopeless says that the next attempt would end as those before it.
func (r *Reporter) Hopeless() error {
	if r.kept.Lost < mostLost {
		return nil
	}
	return Last(errs.WithHint(fmt.Errorf("the last %d pods of the run were killed or evicted before there was another trial", r.kept.Lost),
		"its namespace's events, or the pods' status, say why: perhaps nodes lack memory or disk; meshtrial runs fetch %s gets what there is, which can be resumed", r.run))
}

// PutsBack says that the pod of a hopeless run is to put back what those before it left: not
// where several were lost over that.
func (r *Reporter) PutsBack() bool { return r.kept.Lost < mostLost+mostPuttingBack }

// Last gives an attempt's error the code by which the Job makes no other pod. A nil err stays nil.
func Last(err error) error { return errs.WithCode(err, codeHopeless) }

// Trial notes that the run has one more.
func (r *Reporter) Trial(ctx context.Context) {
	r.kept.Trials++
	r.kept.Lost = 0
	r.write(ctx, reportLimit)
}

// End notes with what code the attempt ended, also when ctx has ended. A hopeless run
// ([Last]) has failed.
func (r *Reporter) End(ctx context.Context, err error) {
	code := errs.Code(err)
	if r.kept.Hopeless = code == codeHopeless; r.kept.Hopeless {
		code = errs.CodeFailure
	}
	r.kept.Exit = &code
	if err != nil {
		r.kept.Error = err.Error()
	}
	r.write(context.WithoutCancel(ctx), lastLimit)
}
