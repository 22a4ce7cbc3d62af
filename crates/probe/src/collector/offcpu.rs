//! Off-CPU stacks: joins the stacks taken at a block or a wake-up with how long the wait lasted.
//!
//! A wait's stack is taken with probability p fixed before the wait's length is known, so
//! length ÷ p estimates the blocked time it stands for without bias (Horvitz and Thompson, 1952).

    fn mark(id: u64, kind: u32, p: u64, stack: u32) -> MarkedStack {
        MarkedStack { id, kind, p, tid: 1, stack: StackId(stack) }
    }

    #[test]
    fn weight_is_length_over_probability() {
        let waits = BTreeMap::from([(1, (wait(16), 1000)), (2, (wait(16), 3000))]);
        let marked = [
            mark(1, 1, 1 << 30, 0),
            mark(2, 1, 1 << 32, 0),
            mark(2, 2, 1 << 32, 5),
            mark(9, 1, 1, 0),
        ];
        let (found, orphans) = weights(&marked, &waits, &Objects::default(), 0.5);
        assert_eq!(orphans, 1);
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].kind, found[0].weight, found[0].count),
            (StackKind::OffCpu, Nanos(7000), 2)
        );
        assert_eq!((found[1].kind, found[1].weight), (StackKind::Waker, Nanos(6000)));
    }

    #[test]
    fn ticks_are_stacks_on_a_core_and_no_waits() {
        let mut stacks = WindowStacks {
            marked: vec![mark(0, 3, 1 << 32, 4), mark(1, 1, 1 << 32, 0), mark(0, 3, 1 << 32, 4)],
            ..WindowStacks::default()
        };
        take_ticks(&mut stacks);
        assert_eq!(stacks.on_cpu, BTreeMap::from([(StackId(4), 2)]));
        assert_eq!(stacks.marked, [mark(1, 1, 1 << 32, 0)]);
    }

    #[test]
    fn names_are_forgotten_with_the_process() {
        let mut lore = LockLore::default();
        lore.begin(&[7]);
        lore.name([16].into_iter(), |_| Some("app:all".to_owned()));
        lore.begin(&[7]);
        assert_eq!(lore.objects().names[&16].as_deref(), Some("app:all"));
        lore.begin(&[8]);
        assert!(lore.objects().names.is_empty());
    }

    #[test]
    fn on_cpu_weights_add_up_to_the_running_time() {
        let counts = BTreeMap::from([(StackId(0), 1), (StackId(1), 3)]);
        let found = on_cpu(&counts, Nanos(4000));
        assert_eq!(found.iter().map(|stack| stack.weight).sum::<Nanos>(), Nanos(4000));
        assert_eq!(found[1].weight, Nanos(3000));
    }
}
