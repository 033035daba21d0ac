//! The console's WebSocket: greets, answers frame by frame, and closes as it is asked to. RFC 6455
//! section 5.

use std::io;

use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::tcp::{OwnedReadHalf, OwnedWriteHalf},
};

use crate::support::message::Reader;

const PING: u8 = 0x9;
const PONG: u8 = 0xa;
const CLOSE: u8 = 0x8;
/// Asks the console to close, which it does with 1012 and a reason.
pub const HANG_UP: &[u8] = b"hang up";

/// One frame: FIN and opcode as they stand in its first byte, masked when a client sends it.
pub fn frame(first: u8, mask: Option<[u8; 4]>, payload: &[u8]) -> Vec<u8> {
    let masked = if mask.is_some() { 0x80 } else { 0 };
    let mut out = vec![first];
    match payload.len() {
        short @ ..126 => out.push(masked | u8::try_from(short).expect("below 126")),
        length @ 126..65_536 => {
            out.push(masked | 126);
            out.extend_from_slice(&u16::try_from(length).expect("below 65,536").to_be_bytes());
        }
        length => {
            out.push(masked | 127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    out.extend(mask.into_iter().flatten());
    let mask = mask.unwrap_or_default();
    out.extend(
        payload
            .iter()
            .zip(mask.iter().cycle())
            .map(|(byte, key)| byte ^ key),
    );
    out
}

/// Reads one frame: its first byte, its payload without the mask, and all its bytes as they came.
async fn read<S: AsyncRead + Unpin>(reader: &mut Reader<S>) -> io::Result<(u8, Vec<u8>, Vec<u8>)> {
    let mut raw = reader.exactly(2).await?;
    let (first, second) = (raw[0], raw[1]);
    let extended = match second & 0x7f {
        126 => reader.exactly(2).await?,
        127 => reader.exactly(8).await?,
        short => vec![short],
    };
    let length = extended
        .iter()
        .fold(0, |length: usize, byte| length << 8 | usize::from(*byte));
    if second & 0x7f >= 126 {
        raw.extend_from_slice(&extended);
    }
    let mask = if second & 0x80 == 0 {
        vec![0; 4]
    } else {
        reader.exactly(4).await?
    };
    if second & 0x80 != 0 {
        raw.extend_from_slice(&mask);
    }
    let masked = reader.exactly(length).await?;
    let payload = masked
        .iter()
        .zip(mask.iter().cycle())
        .map(|(byte, key)| byte ^ key)
        .collect();
    raw.extend_from_slice(&masked);
    Ok((first, payload, raw))
}

/// Sends every data frame back as it was cut, and keeps all bytes that came.
///
/// # Errors
/// When the client goes away without a Close frame.
pub async fn echo(
    reader: &mut Reader<OwnedReadHalf>,
    writer: &mut OwnedWriteHalf,
    seen: &mut Vec<u8>,
) -> io::Result<()> {
    loop {
        let (first, payload, raw) = read(reader).await?;
        seen.extend_from_slice(&raw);
        let answer = match first & 0xf {
            PING => frame(0x80 | PONG, None, &payload),
            PONG => continue,
            CLOSE => {
                send(writer, &frame(0x80 | CLOSE, None, &payload)).await?;
                return Ok(());
            }
            _ if payload == HANG_UP => {
                let reason = [&1012_u16.to_be_bytes()[..], b"back in a minute"].concat();
                send(writer, &frame(0x80 | CLOSE, None, &reason)).await?;
                // The client's own Close is part of what it says.
                seen.extend_from_slice(&read(reader).await?.2);
                return Ok(());
            }
            _ => frame(first, None, &payload),
        };
        send(writer, &answer).await?;
    }
}

async fn send(writer: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    writer.write_all(bytes).await
}
