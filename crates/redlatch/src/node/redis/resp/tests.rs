use super::*;

fn whole(bytes: &[u8]) -> Value<'_> {
    let (value, length) = read_reply(bytes).unwrap().unwrap();
    assert_eq!(length, bytes.len());
    value
}

#[test]
fn commands_are_binary_safe() {
    let mut out = Vec::new();

    write_command(&mut out, &[b"GET", b"a\r\n\0\xff"]);

    assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$5\r\na\r\n\0\xff\r\n");
}

#[test]
fn lengths_of_any_size_are_written() {
    for length in [0, 9, 10, 99, 100, 1024] {
        let mut out = Vec::new();

        write_header(&mut out, b'$', length);

        assert_eq!(out, format!("${length}\r\n").as_bytes());
    }
}

#[test]
fn every_kind_of_reply_is_read() {
    assert_eq!(whole(b"+OK\r\n"), Value::Status(b"OK"));
    assert_eq!(whole(b"-ERR no\r\n"), Value::Error(b"ERR no"));
    assert_eq!(whole(b":-2\r\n"), Value::Int(-2));
    assert_eq!(whole(b":1700000000000000\r\n"), Value::Int(1_700_000_000_000_000));
    assert_eq!(whole(b":9223372036854775807\r\n"), Value::Int(i64::MAX));
    assert_eq!(whole(b"$2\r\n\r\n\r\n"), Value::Text(b"\r\n"));
    assert_eq!(whole(b"$-1\r\n"), Value::Nil);
    assert_eq!(whole(b"*-1\r\n"), Value::Nil);
    let array = Value::Array(vec![Value::Int(1), Value::Nil]);
    assert_eq!(whole(b"*2\r\n:1\r\n$-1\r\n"), array);
}

#[test]
fn every_kind_that_resp3_adds_is_read() {
    assert_eq!(whole(b"_\r\n"), Value::Nil);
    assert_eq!(whole(b"#t\r\n"), Value::Int(1));
    assert_eq!(whole(b"#f\r\n"), Value::Int(0));
    assert_eq!(whole(b",-1.5e3\r\n"), Value::Text(b"-1.5e3"));
    assert_eq!(whole(b"(12345678901234567890\r\n"), Value::Text(b"12345678901234567890"));
    assert_eq!(whole(b"=8\r\ntxt:a\r\nb\r\n"), Value::Text(b"a\r\nb"));
    assert_eq!(whole(b"=4\r\ntxt:\r\n"), Value::Text(b""));
    assert_eq!(whole(b"!6\r\nERR no\r\n"), Value::Error(b"ERR no"));
    let pair = || vec![Value::Text(b"a"), Value::Int(1)];
    assert_eq!(whole(b"%1\r\n$1\r\na\r\n:1\r\n"), Value::Array(pair()));
    assert_eq!(whole(b"~2\r\n$1\r\na\r\n:1\r\n"), Value::Array(pair()));
    assert_eq!(whole(b">2\r\n$1\r\na\r\n:1\r\n"), Value::Push(pair()));
    assert_eq!(whole(b">0\r\n"), Value::Push(vec![]));
}

#[test]
fn half_a_reply_waits_for_the_rest_wherever_it_is_cut() {
    let reply = b"*3\r\n:1\r\n$3\r\nabc\r\n*1\r\n+OK\r\n";

    for cut in 0..reply.len() {
        assert_eq!(read_reply(&reply[..cut]), Ok(None), "cut at {cut}");
    }
}

/// Replies of every kind, also nested.
const REPLIES: [&[u8]; 17] = [
    b"*3\r\n:1\r\n$3\r\nabc\r\n*1\r\n+OK\r\n",
    b"*2\r\n*0\r\n*2\r\n*-1\r\n*1\r\n*1\r\n$0\r\n\r\n",
    b"*0\r\n",
    b"$4\r\n\r\n\r\n\r\n",
    b"$-1\r\n",
    b":-7\r\n",
    b"+OK\r\n",
    b"-ERR no\r\n",
    b"%2\r\n$1\r\na\r\n%1\r\n_\r\n~1\r\n,1.5\r\n$1\r\nb\r\n*0\r\n",
    b"%0\r\n",
    b">3\r\n$7\r\nmessage\r\n$1\r\na\r\n*1\r\n_\r\n",
    b">0\r\n",
    b"=7\r\ntxt:\r\n\r\r\n",
    b"!2\r\n\r\n\r\n",
    b"#t\r\n",
    b"_\r\n",
    b"(9\r\n",
];

#[test]
fn a_reply_is_the_same_wherever_it_is_cut() {
    for reply in REPLIES {
        for cut in 0..reply.len() {
            let mut progress = Progress::default();

            let begun = progress.read(&reply[..cut]);

            assert_eq!(begun, Ok(None), "{} cut at {cut}", reply.escape_ascii());
            let (value, length) = progress.read(reply).unwrap().unwrap();
            assert_eq!(value, whole(reply), "{} cut at {cut}", reply.escape_ascii());
            assert_eq!(length, reply.len());
        }
    }
}

#[test]
fn replies_that_come_byte_by_byte_are_read_one_after_the_other() {
    let stream = REPLIES.concat();
    let (mut progress, mut start, mut read) = (Progress::default(), 0, Vec::new());

    for end in 0..=stream.len() {
        while let Some((value, length)) = progress.read(&stream[start..end]).unwrap() {
            read.push(value);
            start += length;
        }
    }

    assert_eq!(read, REPLIES.map(whole));
}

#[test]
fn what_was_read_of_a_reply_is_not_read_again() {
    for kind in [b'*', b'>', b'~'] {
        let row = [b"*1024\r\n".to_vec(), b":1\r\n".repeat(1024)].concat();
        let reply = [vec![kind], b"1024\r\n".to_vec(), row.repeat(900)].concat();
        let mut progress = Progress::default();

        for end in (0..reply.len()).step_by(100) {
            assert_eq!(progress.read(&reply[..end]), Ok(None));
            assert!(end - progress.at < 8, "{end} bytes, read up to {}", progress.at);
        }
    }
}

#[test]
fn nonsense_is_noticed_as_soon_as_it_is_there() {
    for (start, nonsense) in [
        (&b"*2\r\n:1\r\n"[..], &b"H"[..]),
        (b"*2\r\n:1\r\n*1", b"025\r\n"),
        (b"*1\r\n*1\r\n*1\r\n*1\r\n", b"*0\r\n"),
        (b"*1\r\n$2\r\nab", b"cd"),
        (b"%1\r\n:1\r\n", b">1\r\n"),
        (b"%1\r\n:1\r\n%51", b"3\r\n"),
        (b">1\r\n=", b"3\r\ntxt\r\n"),
        (b"*1\r\n#", b"x\r\n"),
    ] {
        let mut progress = Progress::default();
        let bytes = [start, nonsense].concat();

        assert_eq!(progress.read(start), Ok(None));
        assert!(progress.read(&bytes).is_err(), "{}", nonsense.escape_ascii());
    }
}

#[test]
fn nonsense_is_refused_and_costs_no_memory() {
    let deep = b"%1\r\n".repeat(100);
    let endless = [b"+".to_vec(), b"x".repeat(LONGEST_LINE + 1)].concat();
    let cases: [(&[u8], Nonsense); 18] = [
        (b"HTTP/1.1 400\r\n", Nonsense::Kind(b'H')),
        (b"$9999999999999\r\n", Nonsense::TooLarge),
        (b"*1000000\r\n", Nonsense::TooLarge),
        (b"$-7\r\n", Nonsense::TooLarge),
        (b":1x\r\n", Nonsense::Number),
        (b":\r\n", Nonsense::Number),
        (b":9223372036854775808\r\n", Nonsense::Number),
        (b"$2\r\nabcd", Nonsense::NoEnd),
        (b"+a\rb", Nonsense::Line),
        (b"%513\r\n", Nonsense::TooLarge),
        (b">1025\r\n", Nonsense::TooLarge),
        (b"=9999999999\r\n", Nonsense::TooLarge),
        (b"!9999999999\r\n", Nonsense::TooLarge),
        (b"=3\r\ntxt\r\n", Nonsense::NoEnd),
        (b"*1\r\n>1\r\n", Nonsense::Kind(b'>')),
        (b"|1\r\n", Nonsense::Kind(b'|')),
        (&deep, Nonsense::TooLarge),
        (&endless, Nonsense::Line),
    ];
    for (bytes, nonsense) in cases {
        assert_eq!(read_reply(bytes), Err(nonsense));
    }
}
