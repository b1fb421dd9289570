;;; edn-bridge-side.el --- Questions beside the chat  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; A model is asked something that should not become a part of the chat's
;; conversation: a quick question, another wording of a region, a message
;; for a commit.  Each folder has one session for that, on a connection of
;; its own whose mode lets nothing be changed and asks nobody.
;;
;; One question is asked at a time; others wait.

;;; Code:

(require 'cl-lib)
(require 'edn-bridge-rpc)
(require 'edn-bridge-program)

(cl-defstruct (edn-bridge-side (:copier nil))
  "What asks beside the chats of a folder."
  conn                        ; the connection
  folder                      ; its folder
  queue                       ; questions that wait, the first one is asked
  ready                       ; non-nil once it is subscribed
  answer                      ; parts of the answer so far, the last first
  fresh)                      ; those of them that nobody was told of yet

(cl-defstruct (edn-bridge-side-question (:copier nil))
  "A question that is asked beside the chat."
  text
  on-text                     ; function of the text that came since
  on-done                     ; function of the answer, or nil, and an error
  begun                       ; non-nil once its turn runs
  over)                       ; non-nil if nobody waits for its answer

(defvar edn-bridge-side--all nil
  "What asks beside the chats, an `edn-bridge-side' for each folder.")

(defvar edn-bridge-side--limit 200000
  "How many characters of an answer are kept.")

(cl-defun edn-bridge-side-ask (text &key folder on-text on-done)
  "Ask TEXT beside the chat of FOLDER, by default this one; return the question.
ON-TEXT is called with each part of the answer.  ON-DONE is called once:
with the whole answer and nil, or with nil and why there is none."
  (let ((side (edn-bridge-side--of (or folder default-directory)))
        (question (make-edn-bridge-side-question
                   :text text
                   :on-text (or on-text #'ignore)
                   :on-done (or on-done #'ignore))))
    (setf (edn-bridge-side-queue side)
          (append (edn-bridge-side-queue side) (list question)))
    (edn-bridge-side--next side)
    question))

(defun edn-bridge-side-cancel (question)
  "Wait for the answer to QUESTION no more."
  (unless (edn-bridge-side-question-over question)
    (setf (edn-bridge-side-question-over question) t)
    (dolist (side edn-bridge-side--all)
      (if (not (eq question (car (edn-bridge-side-queue side))))
          (setf (edn-bridge-side-queue side)
                (delq question (edn-bridge-side-queue side)))
        (edn-bridge-rpc-request (edn-bridge-side-conn side) "abort" nil
                                :on-success #'ignore :on-error #'ignore)))))

(defun edn-bridge-side--of (folder)
  "Return what asks beside the chats of FOLDER, connected."
  (or (cl-find-if (lambda (side)
                    (and (equal folder (edn-bridge-side-folder side))
                         (edn-bridge-rpc-live-p (edn-bridge-side-conn side))))
                  edn-bridge-side--all)
      (let ((side (make-edn-bridge-side :folder folder)))
        (setf (edn-bridge-side-conn side)
              (edn-bridge-rpc-connect
               :name "edn-bridge-side"
               :command (apply #'edn-bridge-program-command "serve"
                               (append edn-bridge-program-args
                                       '("--mode" "read-only")))
               :directory folder
               :context side
               :on-ready #'edn-bridge-side--on-ready
               :on-event #'edn-bridge-side--on-event
               :on-batch #'edn-bridge-side--on-batch
               :on-close #'edn-bridge-side--on-close))
        (push side edn-bridge-side--all)
        side)))

(defun edn-bridge-side--on-ready (conn)
  "Prepare the session of CONN, and ask for the queue."
  (let ((side (edn-bridge-rpc-connection-context conn)))
    (edn-bridge-rpc-request
     conn "subscribe"
     '(:topics ["session/updated" "assistant/delta" "assistant/message"
                "turn/retry" "error"])
     :on-success (lambda (_data)
                   (setf (edn-bridge-side-ready side) t)
                   (edn-bridge-side--next side)))
    (edn-bridge-rpc-request conn "set_session_name"
                            '(:name "Questions beside the chat")
                            :on-success #'ignore :on-error #'ignore)))

(defun edn-bridge-side--next (side)
  "Ask the first question that waits at SIDE, unless one is being asked."
  (let ((question (car (edn-bridge-side-queue side))))
    (when (and question
               (edn-bridge-side-ready side)
               (not (edn-bridge-side-question-begun question)))
      (setf (edn-bridge-side-question-begun question) t
            (edn-bridge-side-answer side) nil
            (edn-bridge-side-fresh side) nil)
      (edn-bridge-rpc-request
       (edn-bridge-side-conn side) "prompt"
       (list :message (edn-bridge-side-question-text question))
       :on-success #'ignore
       :on-error (lambda (frame)
                   (edn-bridge-side--finish
                    side question nil (plist-get frame :error-message)))))))

(defun edn-bridge-side--finish (side question answer reason)
  "Note at SIDE that QUESTION has its ANSWER, or none for REASON; go on."
  (when (memq question (edn-bridge-side-queue side))
    (setf (edn-bridge-side-queue side)
          (delq question (edn-bridge-side-queue side)))
    (unless (edn-bridge-side-question-over question)
      (setf (edn-bridge-side-question-over question) t)
      (funcall (edn-bridge-side-question-on-done question) answer reason))
    (when (edn-bridge-rpc-live-p (edn-bridge-side-conn side))
      (edn-bridge-side--next side))))

(defun edn-bridge-side--on-event (conn topic data)
  "Take DATA of TOPIC on CONN for the question that is asked."
  (let* ((side (edn-bridge-rpc-connection-context conn))
         (question (car (edn-bridge-side-queue side))))
    (when (and question (edn-bridge-side-question-begun question))
      (pcase topic
        ("assistant/delta"
         (push (plist-get data :text) (edn-bridge-side-answer side))
         (push (plist-get data :text) (edn-bridge-side-fresh side)))
        ("assistant/message"
         (let ((failure (plist-get data :error-message))
               (reason (format "%s" (plist-get data :stop-reason))))
           (cond
            ((and (stringp failure) (not (equal failure "")))
             (edn-bridge-side--finish side question nil failure))
            ((string-match-p "abort\\|interrupt" reason)
             (edn-bridge-side--finish side question nil "It was cancelled"))
            ;; What is said before a call of a tool is not the answer.
            ((string-match-p "tool" reason)
             (setf (edn-bridge-side-answer side) nil)))))
        ("turn/retry"
         ;; The answer begins anew.
         (when (edn-bridge-edn-true-p (plist-get data :discarded))
           (setf (edn-bridge-side-answer side) nil)))
        ("error"
         (edn-bridge-side--finish side question nil
                                  (plist-get data :error-message)))
        ("session/updated"
         (when (and (edn-bridge-side-answer side)
                    (not (edn-bridge-edn-true-p
                          (plist-get data :is-streaming))))
           (edn-bridge-side--finish side question
                                    (edn-bridge-side--text side) nil)))))))

(defun edn-bridge-side--text (side)
  "Return the text of the answer that SIDE has so far."
  (let ((text (apply #'concat (reverse (edn-bridge-side-answer side)))))
    (if (> (length text) edn-bridge-side--limit)
        (substring text 0 edn-bridge-side--limit)
      text)))

(defun edn-bridge-side--on-batch (conn)
  "Tell what came of the answer on CONN."
  (let* ((side (edn-bridge-rpc-connection-context conn))
         (question (car (edn-bridge-side-queue side))))
    (when (edn-bridge-side-fresh side)
      (let ((text (apply #'concat (reverse (edn-bridge-side-fresh side)))))
        (setf (edn-bridge-side-fresh side) nil)
        (unless (or (null question)
                    (edn-bridge-side-question-over question))
          (funcall (edn-bridge-side-question-on-text question) text))))))

(defun edn-bridge-side--on-close (conn reason)
  "Answer the requests on CONN, which was closed for REASON."
  (let ((side (edn-bridge-rpc-connection-context conn)))
    (setq edn-bridge-side--all (delq side edn-bridge-side--all))
    (dolist (question (copy-sequence (edn-bridge-side-queue side)))
      (edn-bridge-side--finish side question nil
                               (format "Disconnected: %s" reason)))
    (edn-bridge-rpc-forget conn)))

(provide 'edn-bridge-side)

;;; edn-bridge-side.el ends here
