//! The loss of a language model, computed in another way than it was captured.

use std::rc::Rc;

use vramfit_graph::model::TensorId;

use super::Forward;
use crate::autograd::{Body, Context, Frame, Held, KeptResults, Tensor};
use crate::operators::{
    Head, LigerInputs, LossHead, Unmodelled, chunk_lengths, chunks_of, fused_loss, loss_of_chunk, loss_of_chunks,
    rows_and_labels,
};

impl Forward<'_> {
    /// Runs a step between the linear layer and the loss. Returns whether nothing is left to do for it.
    pub(super) fn replaces_step(&mut self, context: &mut Context, index: usize) -> bool {
        let passes = self.passes;
        let Some((kind, head)) = passes.loss_head.as_ref() else { return false };
        if index == head.exit {
            // The layer returns what it is given.
            self.tensors[head.logits.0 as usize] = self.tensors[head.hidden.0 as usize].clone();
        }
        if index == head.last {
            self.make_loss(context, *kind, head);
        }
        let is_call = matches!(self.bound.steps[index], vramfit_graph::bind::BoundStep::Call(_));
        (head.enter..=head.exit).contains(&index) || ((head.exit..=head.last).contains(&index) && is_call)
    }

    fn make_loss(&mut self, context: &mut Context, kind: LossHead, head: &Head) {
        context.memory().borrow_mut().set_origin(head.last as u32);
        self.note_visits(context, head);
        let made = match kind {
            LossHead::Chunked(chunks) => self.chunked_loss(context, head, chunks),
            LossHead::Captured | LossHead::Liger => self.liger_loss(context, head),
        };
        match made {
            Ok(loss) => self.tensors[head.loss.0 as usize] = Some(loss),
            Err(Unmodelled) => {
                self.missing.entry("the replaced loss".to_owned()).or_default().push(head.last as u32);
            }
        }
    }

    fn note_visits(&self, context: &mut Context, head: &Head) {
        if let Some(visits) = &mut context.visits {
            visits.note_call(head.linear as u32);
            visits.note_call(head.last as u32);
        }
    }

    fn tensor(&self, id: TensorId) -> Result<Tensor, Unmodelled> {
        self.tensors[id.0 as usize].clone().ok_or(Unmodelled)
    }

    /// Weight and bias as the layer multiplies with them: under autocast cast where they have not been.
    fn weight_and_bias(&mut self, context: &mut Context, head: &Head) -> Result<(Tensor, Option<Tensor>), Unmodelled> {
        for id in head.bias.into_iter().chain([head.weight]) {
            self.cast_for(context, head, id);
        }
        Ok((self.tensor(head.weight)?, head.bias.map(|bias| self.tensor(bias)).transpose()?))
    }

    /// Makes the cast of a weight, if it is one and is not there.
    fn cast_for(&mut self, context: &mut Context, head: &Head, id: TensorId) {
        if self.tensors[id.0 as usize].is_none()
            && let Some(&made) = self.passes.casts.get(&id)
        {
            let steps = &self.bound.steps;
            self.step(context, made, &steps[made]);
            context.memory().borrow_mut().set_origin(head.last as u32);
        }
    }

    fn chunked_loss(&mut self, context: &mut Context, head: &Head, chunks: u32) -> Result<Tensor, Unmodelled> {
        let (hidden, labels) = (self.tensor(head.logits)?, self.tensor(head.labels)?);
        let (rows, labels) = rows_and_labels(context, &hidden, &labels)?;
        let lengths = chunk_lengths(rows.shape()[0], chunks);
        let row_parts = chunks_of(context, &rows, &lengths)?;
        let label_parts = chunks_of(context, &labels, &lengths)?;
        let mut losses = Vec::with_capacity(lengths.len());
        let memory = Rc::clone(context.memory());
        for (index, (rows, labels)) in row_parts.iter().zip(&label_parts).enumerate() {
            if context.is_grad_on() {
                let inputs = vec![
                    (head.hidden, Held::by_position(context, rows)),
                    (head.labels, Held::by_position(context, labels)),
                ];
                context.checkpointing.begin(Frame::new(Body::ChunkOfLoss(index), inputs, KeptResults::NONE));
            }
            let (weight, bias) = self.weight_and_bias(context, head)?;
            let loss = loss_of_chunk(context, (rows, labels), (&weight, bias.as_ref()))?;
            context.checkpointing.end(&memory);
            losses.push(loss);
        }
        let loss = loss_of_chunks(context, losses, &labels);
        drop(labels);
        drop(rows);
        loss
    }

    /// Computes a chunk again, up to the last tensor that its backward pass needs.
    pub(super) fn chunk_again(&mut self, context: &mut Context) {
        let passes = self.passes;
        let Some((_, head)) = passes.loss_head.as_ref() else { return };
        context.memory().borrow_mut().set_origin(head.last as u32);
        self.note_visits(context, head);
        // What a capture cannot have was named when the chunk ran first.
        let _ = self.loss_of_held_chunk(context, head);
    }

    fn loss_of_held_chunk(&mut self, context: &mut Context, head: &Head) -> Result<Tensor, Unmodelled> {
        let (rows, labels) = (self.tensor(head.hidden)?, self.tensor(head.labels)?);
        let (weight, bias) = self.weight_and_bias(context, head)?;
        loss_of_chunk(context, (&rows, &labels), (&weight, bias.as_ref()))
    }

    fn liger_loss(&mut self, context: &mut Context, head: &Head) -> Result<Tensor, Unmodelled> {
        let (hidden, labels) = (self.tensor(head.logits)?, self.tensor(head.labels)?);
        let (rows, labels) = rows_and_labels(context, &hidden, &labels)?;
        let weight = self.tensor(head.own_weight)?;
        let bias = head.own_bias.map(|bias| self.tensor(bias)).transpose()?;
        let inputs = LigerInputs { hidden: &rows, weight: &weight, bias: bias.as_ref(), labels: &labels };
        fused_loss(context, &inputs, &mut |context| {
            self.cast_for(context, head, head.weight);
            self.tensor(head.weight).ok()
        })
    }
}
