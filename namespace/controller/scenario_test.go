package controller_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// TestScenarios plays the scripts of testdata over an in-memory registry in virtual time.
// Each line is a step, documented in testdata/README. All goroutines are idle before the
// next step.
func TestScenarios(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, scripts)
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(script)
			require.NoError(t, err)
			synctest.Test(t, func(t *testing.T) { play(t, script, string(text)) })
		})
	}
}

func play(t *testing.T, script, text string) {
	s := newStage(t)
	expectations := 0
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		step, ok := steps[words[0]]
		require.True(t, ok, "%s:%d: there is no step %q", script, i+1, words[0])
		if words[0] == "expect" {
			expectations++
		}
		err := safely(func() error { return step(s, words[1:]) })
		require.NoError(t, err, "%s:%d: %s", script, i+1, strings.TrimSpace(line))
		synctest.Wait()
	}
	require.NotZero(t, expectations, "%s expects nothing", script)
}

// safely turns a panic, such as of a step with too few words, into an error.
func safely(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%v", v)
		}
	}()
	return f()
}

// stage is the environment of a script.
type stage struct {
	t        *testing.T
	registry *registry.Registry
	moods    map[string]*mood // by type
	parties  map[string]*player
}

// player is a party and its controller.
type player struct {
	party   namespace.Party
	deleter deleter.Deleter
	stop    func() // nil: the controller has not been started
	mu      sync.Mutex
	passes  int
}

func (p *player) hooks() []controller.Hooks {
	return []controller.Hooks{{PassEnded: func(context.Context, namespace.Ref, pass.Result, error, time.Duration) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.passes++
	}}}
}

var stageTypes = []registry.Type{
	{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true},
	{Version: "v1", Resource: "services", Kind: "Service", Namespaced: true},
	{Version: "v1", Resource: "builds", Group: "openshift.com", Kind: "Build", Namespaced: true},
}

func newStage(t *testing.T) *stage {
	db, err := memory.New(nil)
	require.NoError(t, err)
	r, err := registry.New(db, &registry.Options{Types: stageTypes})
	require.NoError(t, err)
	s := &stage{t: t, registry: r, moods: map[string]*mood{}, parties: map[string]*player{}}
	t.Cleanup(func() {
		for _, p := range s.parties {
			if p.stop != nil {
				p.stop()
			}
		}
		require.NoError(t, r.Close())
		require.NoError(t, db.Close())
	})
	return s
}

// moody is a source whose failures and estimates a script controls.
type moody struct {
	registryContent
	*mood
}

type mood struct {
	mu       sync.Mutex
	failure  error
	graceful time.Time // estimated end of the graceful deletion of all objects
}

// registryContent lists the interfaces that content of a registry implements.
type registryContent interface {
	deleter.Content
	deleter.CollectionDeleter
	deleter.Notifier
}

func (m *mood) now() (graceful time.Time, failure error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.graceful, m.failure
}

func (m moody) List(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
	graceful, failure := m.now()
	if failure != nil {
		return deleter.Page{}, failure
	}
	page, err := m.registryContent.List(ctx, target, limit, next)
	if !graceful.IsZero() {
		for i := range page.Items {
			page.Items[i].Finalizers, page.Items[i].Grace = nil, max(0, time.Until(graceful))
		}
	}
	return page, err
}

func (m moody) DeleteCollection(ctx context.Context, target deleter.Target) (int, bool, error) {
	if _, err := m.now(); err != nil {
		return 0, false, err
	}
	return m.registryContent.DeleteCollection(ctx, target)
}

func (m moody) Wait(ctx context.Context, target deleter.Target, seen string) error {
	if graceful, _ := m.now(); !graceful.IsZero() {
		return deleter.ErrNotSupported
	}
	return m.registryContent.Wait(ctx, target, seen)
}

// steps are the commands of a script.
var steps = map[string]func(s *stage, words []string) error{
	"party":    (*stage).party,
	"start":    (*stage).start,
	"stop":     (*stage).stopParty,
	"create":   (*stage).create,
	"delete":   (*stage).delete,
	"put":      (*stage).put,
	"release":  (*stage).release,
	"hold":     (*stage).hold,
	"letgo":    (*stage).letGo,
	"fail":     (*stage).fail,
	"heal":     (*stage).heal,
	"estimate": (*stage).estimate,
	"wait":     (*stage).wait,
	"expect":   (*stage).expect,
}

func (s *stage) party(words []string) error {
	p := &player{party: namespace.Party{Finalizer: finalizer.Name(words[0])}}
	types := make([]namespace.ResourceType, len(words)-1)
	for i, name := range words[1:] {
		types[i], s.moods[name] = resourceNamed(name), &mood{}
	}
	var err error
	p.deleter, err = s.registry.Deleter(&registry.DeleterOptions{Types: types, Sources: s.discover})
	s.parties[words[0]] = p
	return err
}

func (s *stage) discover(_ context.Context, sources []deleter.Source) ([]deleter.Source, error) {
	for i := range sources {
		sources[i].Content = moody{sources[i].Content.(registryContent), s.moods[sources[i].Resource.String()]}
	}
	return sources, nil
}

func resourceNamed(name string) namespace.ResourceType {
	resource, group, _ := strings.Cut(name, ".")
	return namespace.ResourceType{Name: resource, Group: group}
}

func (s *stage) start(words []string) error {
	p := s.parties[words[0]]
	p.stop = run(s.t, s.registry, p.deleter, p.party, controller.Options{Hooks: p.hooks()})
	return nil
}

func (s *stage) stopParty(words []string) error {
	s.parties[words[0]].stop()
	return nil
}

func (s *stage) create(words []string) error {
	ns := namespace.Namespace{Meta: namespace.Meta{Name: words[0]}}
	for _, f := range words[1:] {
		ns.Spec.Finalizers = ns.Spec.Finalizers.With(finalizer.Name(f))
	}
	_, err := s.registry.Create(s.t.Context(), ns)
	return err
}

func (s *stage) delete(words []string) error {
	_, err := s.registry.Delete(s.t.Context(), words[0], namespace.Preconditions{})
	return err
}

// put NAMESPACE TYPE COUNT [held-by FINALIZER]
func (s *stage) put(words []string) error {
	content, err := s.registry.Content(resourceNamed(words[1]))
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(words[2])
	if err != nil {
		return err
	}
	for i := range count {
		o := registry.Object{Meta: namespace.Meta{Name: fmt.Sprint("object-", i)}}
		if len(words) == 5 && words[3] == "held-by" {
			o.Finalizers = finalizer.NewSet(finalizer.Name(words[4]))
		}
		if _, err := content.Create(s.t.Context(), words[0], o); err != nil {
			return err
		}
	}
	return nil
}

// release NAMESPACE TYPE removes the finalizers of all objects.
func (s *stage) release(words []string) error {
	content, err := s.registry.Content(resourceNamed(words[1]))
	if err != nil {
		return err
	}
	list, err := content.List(s.t.Context(), words[0], registry.ListOptions{})
	for _, o := range list.Items {
		o.Finalizers = finalizer.Set{}
		if _, err := content.Update(s.t.Context(), words[0], o); err != nil {
			return err
		}
	}
	return err
}

func (s *stage) finalize(name string, change func(finalizer.Set) finalizer.Set) error {
	ns, err := s.registry.Get(s.t.Context(), name)
	if err != nil {
		return err
	}
	ns.Spec.Finalizers = change(ns.Spec.Finalizers)
	_, err = s.registry.Finalize(s.t.Context(), ns)
	return err
}

func (s *stage) hold(words []string) error {
	return s.finalize(words[0], func(set finalizer.Set) finalizer.Set { return set.With(finalizer.Name(words[1])) })
}

func (s *stage) letGo(words []string) error {
	return s.finalize(words[0], func(set finalizer.Set) finalizer.Set { return set.Without(finalizer.Name(words[1])) })
}

func (s *stage) fail(words []string) error {
	m := s.moods[words[0]]
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failure = errors.New(strings.Join(words[1:], " "))
	return nil
}

func (s *stage) heal(words []string) error {
	m := s.moods[words[0]]
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failure = nil
	return nil
}

func (s *stage) estimate(words []string) error {
	m := s.moods[words[0]]
	m.mu.Lock()
	defer m.mu.Unlock()
	d, err := time.ParseDuration(words[1])
	m.graceful = time.Now().Add(d)
	return err
}

func (s *stage) wait(words []string) error {
	d, err := time.ParseDuration(words[0])
	time.Sleep(d)
	return err
}

func (s *stage) expect(words []string) error {
	name, what, rest := words[0], words[1], words[2:]
	if what == "passes" {
		p := s.parties[name]
		p.mu.Lock()
		defer p.mu.Unlock()
		return equal(rest[0], strconv.Itoa(p.passes))
	}
	ns, err := s.registry.Get(s.t.Context(), name)
	if what == "removed" {
		if !errors.Is(err, namespace.ErrNotFound) {
			return fmt.Errorf("it is there: %+v, %v", ns, err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	switch what {
	case "phase":
		return equal(rest[0], string(ns.Status.Phase))
	case "finalizers":
		return equal(strings.Join(rest, " "), strings.Join(strs(ns), " "))
	case "condition": // TYPE STATUS MESSAGE
		i := slices.IndexFunc(ns.Status.Conditions, func(c phase.Condition) bool { return string(c.Type) == rest[0] })
		c := ns.Status.Conditions[i]
		return errors.Join(equal(rest[1], string(c.Status)), equal(strings.Join(rest[2:], " "), c.Message))
	case "content": // TYPE COUNT
		content, err := s.registry.Content(resourceNamed(rest[0]))
		if err != nil {
			return err
		}
		list, err := content.List(s.t.Context(), name, registry.ListOptions{})
		return errors.Join(err, equal(rest[1], strconv.Itoa(len(list.Items))))
	case "refuses": // TYPE
		if err := s.put([]string{name, rest[0], "1"}); !errors.Is(err, namespace.ErrTerminating) && !errors.Is(err, namespace.ErrForbidden) {
			return fmt.Errorf("expected a refusal, got %v", err)
		}
		return nil
	}
	return fmt.Errorf("unknown expectation %q", what)
}

func equal(want, got string) error {
	if want != got {
		return fmt.Errorf("expected %q, got %q", want, got)
	}
	return nil
}
