;;; edn-bridge-messages.el --- The messages of a chat  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Shows the messages of a chat's session: as they stream in, when they are
;; complete, and those of the journal, a page at a time.
;;
;; Texts that came together are added together: they are collected until
;; another event or the end of the batch, and then inserted once.
;;
;; Nothing stands inside a running answer.  Its text goes on where it ended,
;; above what was added to the transcript since.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'edn-bridge-markdown)
(require 'edn-bridge-chat)

(defcustom edn-bridge-messages-show-thinking 'folded
  "Whether what the model thinks aloud is shown.
The symbol `folded' means that it is folded into a line as soon as it is
complete."
  :type '(choice (const :tag "Folded when it is complete" folded)
                 (const :tag "Shown" t)
                 (const :tag "Left out" nil))
  :group 'edn-bridge)

(defvar-local edn-bridge-messages--stream nil
  "The message that is streaming in, an `edn-bridge-messages--stream', or nil.")

(defvar-local edn-bridge-messages--deltas nil
  "Texts that came and are not shown yet, last first.")

(defvar-local edn-bridge-messages--delta-kind nil
  "What the texts in `edn-bridge-messages--deltas' are: `text' or `thinking'.")

(defvar-local edn-bridge-messages--shown nil
  "Texts shown of the message that is not complete yet, last first.
They may be in several places: a tool call can come in between.")

(defvar-local edn-bridge-messages--pieces nil
  "Where the pieces of the answer that is not complete stand, last first.
A list of pairs of markers.")

(defvar-local edn-bridge-messages--at nil
  "How much came of the answer that is not complete, or nil.
A property list of `:turn', `:call', `:chars' and `:thinking'.")

(defvar-local edn-bridge-messages--page nil
  "Ids of the messages that were shown when the transcript was last rebuilt.")

(defvar-local edn-bridge-messages--senders nil
  "Hash table of who sent a message, by its entry, where that was not the user.
The journal does not know; who saw it come does.")

(defvar-local edn-bridge-messages--oldest nil
  "Id of the oldest message shown.")

(defvar-local edn-bridge-messages--more nil
  "Non-nil if there are messages before the oldest one shown.
A button at the top of the transcript, in a line of its own, says so.")

(cl-defstruct (edn-bridge-messages--stream (:copier nil))
  "A message that is streaming in."
  kind                       ; `text' or `thinking'
  start                      ; marker where its text starts
  end                        ; marker where its text ends and goes on
  (size 0)                   ; length of its text, for `text'
  (column 0)                 ; length of its last line
  markdown)                  ; state of the faces, for `text'

(defun edn-bridge-messages--on-rehydrated (data)
  "Show the messages in DATA of `session/rehydrated'."
  (when (edn-bridge-chat-mine-p data)
    (when edn-bridge-chat-following
      (setq edn-bridge-chat-following 'rebuilt))
    (edn-bridge-messages--rebuild data)
    (run-hooks 'edn-bridge-chat-ready-hook)))

;;;; Streaming

(defun edn-bridge-messages--on-delta (kind data)
  "Keep the text in DATA, of KIND, until the next flush."
  (when (edn-bridge-chat-mine-p data)
    (let ((text (edn-bridge-messages--news kind data)))
      (unless (equal text "")
        (unless (eq kind edn-bridge-messages--delta-kind)
          (edn-bridge-messages--flush)
          (setq edn-bridge-messages--delta-kind kind))
        (push text edn-bridge-messages--deltas)))))

(defun edn-bridge-messages--news (kind data)
  "Return what is new of the text in DATA, of KIND; who comes back has some.
Note how much there is now."
  (let ((text (plist-get data :text))
        (turn (plist-get data :turn-id))
        (call (plist-get data :call))
        (place (plist-get data :at))
        (key (if (eq kind 'thinking) :thinking :chars))
        (at edn-bridge-messages--at))
    (if (not (and turn call (integerp place)))
        text
      (unless (and at
                   (equal turn (plist-get at :turn))
                   (equal call (plist-get at :call)))
        (when (and at edn-bridge-chat-following)
          ;; What is shown of an answer is nothing of this one.
          (setq edn-bridge-chat-following 'again))
        (setq at (list :turn turn :call call :chars 0 :thinking 0)))
      (let ((have (plist-get at key)))
        (when (and (> place have) edn-bridge-chat-following)
          (setq edn-bridge-chat-following 'again))
        (setq edn-bridge-messages--at
              (plist-put at key (max have (+ place (length text)))))
        (substring text (min (length text) (max 0 (- have place))))))))

(defun edn-bridge-messages-in-answer ()
  "Return how much is shown of the answer that is not complete, or nil."
  (and edn-bridge-messages--at
       (copy-sequence edn-bridge-messages--at)))

(defun edn-bridge-messages--flush ()
  "Add the texts that came to the transcript, all at once."
  (when edn-bridge-messages--deltas
    (let ((text (apply #'concat (nreverse edn-bridge-messages--deltas))))
      (setq edn-bridge-messages--deltas nil)
      (unless (and (eq edn-bridge-messages--delta-kind 'thinking)
                   (not edn-bridge-messages-show-thinking))
        (edn-bridge-messages--stream-text edn-bridge-messages--delta-kind text)))))

(defun edn-bridge-messages--stream-text (kind text)
  "Add TEXT of KIND to the message that streams in, beginning it if need be."
  (unless (and edn-bridge-messages--stream
               (eq kind (edn-bridge-messages--stream-kind edn-bridge-messages--stream)))
    (edn-bridge-messages--end-stream)
    (edn-bridge-messages--begin-stream kind))
  (let ((stream edn-bridge-messages--stream))
    (when (eq kind 'text)
      (push text edn-bridge-messages--shown)
      (setf (edn-bridge-messages--stream-size stream)
            (+ (edn-bridge-messages--stream-size stream) (length text))))
    (edn-bridge-transcript-edit
      (let* ((start (marker-position (edn-bridge-messages--stream-end stream)))
             ;; To look for where the line begins would cost more.
             (column (edn-bridge-messages--stream-column stream))
             (text (edn-bridge-visible-break text column)))
        (goto-char start)
        (insert text)
        (let ((end (point)))
          (skip-chars-backward "^\n" start)
          (setf (edn-bridge-messages--stream-column stream)
                (if (= (point) start)
                    (+ column (length text))
                  (- end (point))))
          (set-marker (edn-bridge-messages--stream-end stream) end)
          (if (eq kind 'thinking)
              (put-text-property start end 'face 'edn-bridge-messages-thinking)
            (edn-bridge-markdown-feed (edn-bridge-messages--stream-markdown stream)
                                      start end))
          (edn-bridge-transcript-protect start end))))))

(defvar-local edn-bridge-messages--thought-since nil
  "When the thinking that is streaming began, or nil.")

(defun edn-bridge-messages--begin-stream (kind)
  "Begin a message of KIND at the end of the transcript."
  (if (eq kind 'thinking)
      (progn
        (setq edn-bridge-messages--thought-since (float-time))
        (edn-bridge-chat-heading "Thinking" 'edn-bridge-messages-thinking))
    (edn-bridge-transcript-add
      (edn-bridge-chat-insert-answer-heading)))
  (edn-bridge-messages--set-open t)
  (let ((start (edn-bridge-transcript-end)))
    (setq edn-bridge-messages--stream
          (make-edn-bridge-messages--stream
           :kind kind
           :start (copy-marker start)
           :end (copy-marker start)
           :markdown (and (eq kind 'text)
                          (edn-bridge-markdown-begin start))))))

(defun edn-bridge-messages--set-open (open)
  "Have an empty line between a running answer and the footer if OPEN."
  (setq edn-bridge-transcript-open open)
  (edn-bridge-chat--show-footer))

(defun edn-bridge-messages--end-stream ()
  "End the message that streams in, if there is one."
  (when-let ((stream edn-bridge-messages--stream))
    (setq edn-bridge-messages--stream nil)
    (edn-bridge-messages--set-open nil)
    (let ((end (edn-bridge-messages--stream-end stream)))
      (edn-bridge-transcript-edit
        (when (edn-bridge-messages--stream-markdown stream)
          (edn-bridge-markdown-finish
           (edn-bridge-messages--stream-markdown stream)
           (marker-position end)))
        (goto-char end)
        (unless (or (bolp)
                    ;; What stands below began with a new line.
                    (< (point) (edn-bridge-transcript-end)))
          (insert "\n")
          (edn-bridge-transcript-protect (1- (point)) (point))))
      (when (eq (edn-bridge-messages--stream-kind stream) 'thinking)
        (edn-bridge-messages--make-foldable
         (marker-position (edn-bridge-messages--stream-start stream))
         ;; With the end of its last line.
         (min (1+ end) (edn-bridge-transcript-end))))
      (push (cons (copy-marker (edn-bridge-messages--heading-of
                                (edn-bridge-messages--stream-start stream)))
                  (copy-marker (min (1+ end) (edn-bridge-transcript-end))))
            edn-bridge-messages--pieces)
      (set-marker end nil))
    (set-marker (edn-bridge-messages--stream-start stream) nil)))

;;;; Thinking

(defvar edn-bridge-messages-thinking-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'edn-bridge-messages-toggle-thinking)
    (define-key map (kbd "TAB") #'edn-bridge-messages-toggle-thinking)
    (define-key map [mouse-1] #'edn-bridge-messages-toggle-thinking)
    map)
  "Keymap on the headings of what the model thought.")

(defvar-local edn-bridge-messages--thoughts 0
  "How many pieces of thinking this chat has had, to tell them apart.")

(defun edn-bridge-messages--make-foldable (start end)
  "Have the thinking between START and END, below its heading, folded.
Where point is in it, it is being read, and only can be folded.  The heading
says from now on that it is over."
  (when (< start end)
    (let* ((heading (edn-bridge-messages--heading-of start))
           (shift (edn-bridge-messages--end-thinking heading))
           (start (- start shift))
           (end (- end shift)))
      (edn-bridge-transcript-edit
        (put-text-property heading end 'edn-bridge-thinking
                           (cl-incf edn-bridge-messages--thoughts))
        (add-text-properties heading (1- start)
                             (list 'keymap edn-bridge-messages-thinking-map
                                   'mouse-face 'highlight
                                   'help-echo "RET, TAB: fold or unfold")))
      (when (and (eq edn-bridge-messages-show-thinking 'folded)
                 (not (<= start (point) (1- end))))
        (edn-bridge-messages--fold-thinking heading t)))))

(defun edn-bridge-messages--end-thinking (heading)
  "Have HEADING say that the model thought, if it says that it is thinking.
Return by how much the heading got shorter."
  (edn-bridge-transcript-edit
    (goto-char heading)
    (if (not (looking-at "Thinking\n"))
        0
      (let ((word (edn-bridge-messages--thought
                   (and edn-bridge-messages--thought-since
                        (- (float-time) edn-bridge-messages--thought-since)))))
        (setq edn-bridge-messages--thought-since nil)
        (insert (apply #'propertize word (text-properties-at heading)))
        (delete-char (length "Thinking"))
        (- (length "Thinking") (length word))))))

(defun edn-bridge-messages--thought (seconds)
  "Return the heading of what the model thought for SECONDS, or nil."
  (if (and seconds (>= seconds 1))
      (format "Thought for %s" (edn-bridge-chat--duration (floor seconds)))
    "Thought"))

(defun edn-bridge-messages--thinking-end (start)
  "Return the end of the thinking whose heading begins at START."
  (next-single-property-change start 'edn-bridge-thinking nil
                               (edn-bridge-transcript-end)))

(defun edn-bridge-messages--thinking-folded-p (start)
  "Return non-nil if the thinking whose heading begins at START is folded."
  (get-text-property (1- (edn-bridge-messages--thinking-end start)) 'invisible))

(defun edn-bridge-messages--fold-thinking (start fold)
  "Fold the thinking whose heading begins at START; without FOLD, unfold it."
  (let ((end (edn-bridge-messages--thinking-end start))
        (body (save-excursion (goto-char start)
                              (let ((inhibit-field-text-motion t))
                                (line-end-position)))))
    (edn-bridge-transcript-edit
      ;; The last newline goes, and that of the heading stays in its place:
      ;; what stands below begins a line of its own.
      (put-text-property (1+ body) end 'invisible
                         (and fold 'edn-bridge-thinking))
      (put-text-property body (1+ body) 'display
                         (and fold (propertize " …\n" 'face 'edn-bridge-muted))))))

(defun edn-bridge-messages-thinking-at-point ()
  "Return the start of the thinking that point is in, or nil."
  (and (get-text-property (point) 'edn-bridge-thinking)
       (previous-single-property-change (1+ (point)) 'edn-bridge-thinking
                                        nil (point-min))))

(defun edn-bridge-messages-toggle-thinking (&optional event)
  "Fold or unfold the thinking at point, or where the mouse EVENT was."
  (interactive (list last-nonmenu-event) edn-bridge-chat-mode)
  (when (mouse-event-p event)
    (mouse-set-point event))
  (let ((start (edn-bridge-messages-thinking-at-point)))
    (unless start
      (user-error "The model did not think here"))
    (let ((folded (edn-bridge-messages--thinking-folded-p start)))
      (edn-bridge-messages--fold-thinking start (not folded))
      (unless folded
        (goto-char start)))))

(defun edn-bridge-messages-fold-all (fold)
  "Fold all thinking of this chat, or unfold it if FOLD is nil.
Return how many pieces that changed."
  (let ((place (point-min))
        (end (edn-bridge-transcript-end))
        (count 0))
    (while (setq place (text-property-not-all place end
                                              'edn-bridge-thinking nil))
      (unless (eq fold (and (edn-bridge-messages--thinking-folded-p place) t))
        (edn-bridge-messages--fold-thinking place fold)
        (setq count (1+ count)))
      (setq place (edn-bridge-messages--thinking-end place)))
    count))

;;;; Messages

(defun edn-bridge-messages--on-message (data)
  "Show DATA of `assistant/message': complete what streamed in, or add it."
  (when (edn-bridge-chat-mine-p data)
    ;; The journal may have had it already when it was read.
    (unless (and (edn-bridge-messages-shown-p (plist-get data :entry-id))
                 (null edn-bridge-messages--stream)
                 (null edn-bridge-messages--shown))
      (edn-bridge-messages--complete (edn-bridge-messages-text data)
                                     (plist-get data :entry-id))
      (edn-bridge-messages--forget-pieces)
      (setq edn-bridge-messages--at nil)
      (edn-bridge-messages--show-sources data (plist-get data :entry-id))
      (edn-bridge-messages--show-outcome data (plist-get data :entry-id)))))

(defun edn-bridge-messages-shown-p (entry)
  "Return non-nil if ENTRY, or nil, was in the journal when that was shown."
  (and entry (member entry edn-bridge-messages--page) t))

(defun edn-bridge-messages--complete (text entry)
  "Have TEXT, of the journal's ENTRY or nil, shown once as a whole message."
  (let* ((stream edn-bridge-messages--stream)
         (shown (apply #'concat (reverse edn-bridge-messages--shown))))
    (cond
     ((equal text shown))
     ((and stream
           (= (edn-bridge-messages--stream-size stream) (length shown))
           (not (equal shown "")))
      (edn-bridge-messages--replace-stream stream text))
     ((and (not (equal shown "")) (string-prefix-p shown text))
      (edn-bridge-messages--stream-text 'text
                                        (substring text (length shown))))
     (t
      (edn-bridge-messages--end-stream)
      (edn-bridge-messages--insert-answer text entry)))
    (if (not (and entry edn-bridge-messages--stream))
        (edn-bridge-messages--end-stream)
      (let ((start (edn-bridge-messages--heading-of
                    (edn-bridge-messages--stream-start
                     edn-bridge-messages--stream)))
            (end (marker-position (edn-bridge-messages--stream-end
                                   edn-bridge-messages--stream))))
        (edn-bridge-messages--end-stream)
        (edn-bridge-transcript-edit
          (put-text-property start
                             ;; With the end of its last line.
                             (if (eq (char-after end) ?\n) (1+ end) end)
                             'edn-bridge-entry entry))))
    (setq edn-bridge-messages--shown nil)))

(defun edn-bridge-messages--forget-pieces ()
  "Forget where the pieces of an answer stand."
  (dolist (piece edn-bridge-messages--pieces)
    (set-marker (car piece) nil)
    (set-marker (cdr piece) nil))
  (setq edn-bridge-messages--pieces nil))

(defun edn-bridge-messages-trim-end ()
  "Delete empty lines at the end of the transcript.
What is added there brings its own."
  (edn-bridge-transcript-edit
    (goto-char (edn-bridge-transcript-end))
    (while (and (eq (char-before) ?\n)
                (eq (char-before (1- (point))) ?\n))
      (delete-char -1))))

(defun edn-bridge-messages--on-retry (data)
  "Delete what is shown of an answer that DATA of `turn/retry' drops."
  (when (and (edn-bridge-chat-mine-p data)
             (edn-bridge-edn-true-p (plist-get data :discarded)))
    (edn-bridge-chat-settle 'end)
    (let ((dropped (list 'dropped)))
      (dolist (piece edn-bridge-messages--pieces)
        (edn-bridge-transcript-edit
          (put-text-property (car piece) (cdr piece)
                             'edn-bridge-entry dropped)))
      (edn-bridge-messages--delete dropped))
    (edn-bridge-messages-trim-end)
    (edn-bridge-messages--forget-pieces)
    (setq edn-bridge-messages--shown nil
          edn-bridge-messages--at nil)))

(defun edn-bridge-messages--heading-of (start)
  "Return where the heading begins below which a text begins at START."
  (save-excursion
    (goto-char start)
    (let ((inhibit-field-text-motion t))
      (line-beginning-position 0))))

(defun edn-bridge-messages--replace-stream (stream text)
  "Put TEXT in the place of what came as STREAM."
  (let ((start (marker-position (edn-bridge-messages--stream-start stream)))
        (end (edn-bridge-messages--stream-end stream)))
    (edn-bridge-transcript-edit
      (delete-region start end)
      (goto-char start)
      (insert (edn-bridge-visible-break text 0))
      (set-marker end (point))
      (edn-bridge-markdown-region start (marker-position end))
      (edn-bridge-transcript-protect start end))
    (setf (edn-bridge-messages--stream-markdown stream) nil)))

(defmacro edn-bridge-messages-as-part (entry &rest body)
  "Run BODY, which adds to the transcript, as part of the message ENTRY.
ENTRY may be nil.  What is added goes where the message goes."
  (declare (indent 1) (debug t))
  (macroexp-let2* nil ((entry entry)
                       (start '(edn-bridge-transcript-end)))
    `(prog1 (progn ,@body)
       (when (and ,entry (< ,start (edn-bridge-transcript-end)))
         (edn-bridge-transcript-edit
           (put-text-property ,start (edn-bridge-transcript-end)
                              'edn-bridge-entry ,entry))))))

(defun edn-bridge-messages--show-outcome (message entry)
  "Show how MESSAGE of the assistant ended, where it did not end well.
ENTRY is its entry in the journal, or nil."
  (let ((reason (edn-bridge-chat-word (plist-get message :stop-reason)))
        (failure (plist-get message :error-message)))
    (edn-bridge-messages-as-part entry
      (cond
       ((and (stringp failure) (not (equal failure "")))
        (edn-bridge-chat-notice failure 'edn-bridge-error))
       ((member reason '("aborted" "interrupted"))
        (edn-bridge-chat-notice (concat "(" reason ")")))))))

(defun edn-bridge-messages--on-replaced (data)
  "Delete the messages that DATA of `messages/replaced' names.
The model is asked again, and their answers are others."
  (when (edn-bridge-chat-mine-p data)
    (edn-bridge-chat-settle 'end)
    (seq-do #'edn-bridge-messages--delete (plist-get data :entry-ids))))

(defun edn-bridge-messages--delete (entry)
  "Delete what shows the message ENTRY, with what was thought for it."
  (let ((place (point-min)))
    (while (setq place (edn-bridge-transcript-find
                        'edn-bridge-entry entry
                        place (edn-bridge-transcript-end)))
      (let ((start place)
            (end (next-single-property-change place 'edn-bridge-entry nil
                                              (edn-bridge-transcript-end)))
            (above nil))
        ;; Thinking stands above, with an empty line between.
        (while (and (> start (point-min))
                    (setq above (or (get-text-property (1- start)
                                                       'edn-bridge-thinking)
                                    (and (> (1- start) (point-min))
                                         (get-text-property
                                          (- start 2)
                                          'edn-bridge-thinking)))))
          (setq start (or (text-property-any (point-min) start
                                             'edn-bridge-thinking above)
                          (point-min))))
        (edn-bridge-transcript-edit
          (delete-region start end)
          (goto-char start)
          ;; An empty line stood above this, and one above what is below it.
          (cond
           ((and (< (point) (edn-bridge-transcript-end))
                 (eq (char-after) ?\n)
                 (memq (char-before) '(nil ?\n)))
            (delete-char 1))
           ((and (= (point) (edn-bridge-transcript-end))
                 (eq (char-before) ?\n)
                 (eq (char-before (1- (point))) ?\n))
            (delete-char -1))))
        (setq place start)))))

(defun edn-bridge-messages-text (message)
  "Return the text of MESSAGE, its text blocks joined."
  (let ((content (plist-get message :content)))
    (if (stringp content)
        content
      (mapconcat (lambda (block)
                   (if (eq (plist-get block :type) :text)
                       (or (plist-get block :text) "")
                     ""))
                 content ""))))

(defcustom edn-bridge-messages-image-width 480
  "How many pixels wide images in messages are shown at most.
0 means that they are only named."
  :type 'natnum
  :group 'edn-bridge)

(defun edn-bridge-messages--insert-images (message)
  "Add the images in MESSAGE to the transcript, each in a line.
Where they cannot be shown, they are named."
  (let ((content (plist-get message :content)))
    (unless (stringp content)
      (seq-do (lambda (block)
                (when (eq (plist-get block :type) :image)
                  (edn-bridge-transcript-add
                    (edn-bridge-transcript-fresh-line)
                    (insert (edn-bridge-messages--image block) "\n"))))
              content))))

(defun edn-bridge-messages--image (block)
  "Return the text that shows the image of BLOCK, or names it."
  (let* ((type (edn-bridge-chat-word (plist-get block :mime-type)))
         (data (or (plist-get block :data) ""))
         (name (format "[%s, %s]" type
                       (file-size-human-readable (/ (* 3 (length data)) 4))))
         (image (and (> edn-bridge-messages-image-width 0)
                     (string-prefix-p "image/" type)
                     ;; What is no image is named.
                     (ignore-errors
                       (edn-bridge-markdown-image
                        (base64-decode-string data)
                        (string-remove-prefix "image/" type)
                        edn-bridge-messages-image-width)))))
    (propertize name
                'face 'edn-bridge-chat-notice
                'display image)))

(defun edn-bridge-messages--rebuild (data)
  "Show the `:messages' in DATA instead of what the transcript shows.
Where `:more' is true there are earlier ones."
  (when-let ((stream edn-bridge-messages--stream))
    (set-marker (edn-bridge-messages--stream-start stream) nil)
    (set-marker (edn-bridge-messages--stream-end stream) nil))
  (setq edn-bridge-messages--stream nil
        edn-bridge-messages--deltas nil
        edn-bridge-messages--shown nil
        edn-bridge-messages--at nil
        edn-bridge-messages--more nil)
  (edn-bridge-transcript-clear)
  (run-hook-with-args 'edn-bridge-chat-rebuild-functions data)
  (let* ((messages (plist-get data :messages))
         (count (length messages))
         (first (max 0 (- count edn-bridge-chat-page)))
         (page (substring messages first)))
    (setq edn-bridge-messages--page
          (mapcar (lambda (message) (plist-get message :id)) page))
    (edn-bridge-messages--insert-messages page (plist-get data :interrupted) t)
    (edn-bridge-messages--set-more
     (or (> first 0) (edn-bridge-edn-true-p (plist-get data :more)))))
  (run-hooks 'edn-bridge-chat-rebuilt-hook))

(defconst edn-bridge-messages--garbage 32000000
  "How many bytes may be used for many messages before garbage is collected.
What is made for them is kept: to look for garbage on the way takes most of
the time and finds none.")

(defun edn-bridge-messages--insert-messages (messages interrupted &optional newest)
  "Add MESSAGES, a vector, to the transcript.
INTERRUPTED are the turns of them that were cut off with their bridge.
NEWEST is non-nil if the last of them is the last of all."
  (when (> (length messages) 0)
    (setq edn-bridge-messages--oldest (plist-get (aref messages 0) :id))
    (let ((gc-cons-threshold (max gc-cons-threshold
                                  edn-bridge-messages--garbage))
          (turn nil))
      (seq-do (lambda (message)
                (let ((next (plist-get message :turn-id)))
                  (unless (equal next turn)
                    (edn-bridge-messages--end-turn turn interrupted))
                  (setq turn next)
                  (edn-bridge-messages--insert-message message)))
              messages)
      (edn-bridge-messages--end-turn turn interrupted newest))))

(defvar edn-bridge-messages-continue-button nil
  "Label and command of the button that continues a turn that was cut off.")

(defun edn-bridge-messages--end-turn (turn interrupted &optional newest)
  "Below the last message of TURN, say that it is one of those INTERRUPTED.
Offer to continue it if it is the NEWEST."
  (when (and turn (seq-contains-p interrupted turn))
    (apply #'edn-bridge-chat-notice
           "The bridge ended in this turn.  Nothing was done again."
           'edn-bridge-error
           (and newest edn-bridge-messages-continue-button
                (list edn-bridge-messages-continue-button)))))

(defun edn-bridge-messages--insert-message (message)
  "Add MESSAGE to the transcript."
  (pcase (edn-bridge-chat-word (plist-get message :role))
    ("user"
     (edn-bridge-messages-insert-user message (plist-get message :id)))
    ("assistant"
     (edn-bridge-messages--insert-blocks message)
     (edn-bridge-messages--insert-images message)
     (edn-bridge-messages--show-outcome message (plist-get message :id)))
    ("tool"
     (when-let ((function (edn-bridge-chat-block-handler :tool-result)))
       (funcall function message message)))
    (_
     (let ((text (edn-bridge-messages-text message)))
       (unless (equal text "")
         (edn-bridge-chat-notice text))))))

(defun edn-bridge-messages-insert-user (message entry)
  "Add MESSAGE of a user, of the journal's ENTRY or nil, to the transcript."
  (let ((sender (edn-bridge-messages--sender message entry))
        (text (edn-bridge-messages-text message)))
    (edn-bridge-messages--insert-text
     (propertize (if sender (concat "From " sender) "You")
                 'edn-bridge-said text)
     'edn-bridge-messages-user text entry 'said)
    (edn-bridge-messages--insert-images message)))

(defun edn-bridge-messages--sender (message entry)
  "Return who sent MESSAGE of ENTRY, as a label, or nil for the user."
  (let ((sender (or (plist-get message :sender)
                    (and entry edn-bridge-messages--senders
                         (gethash entry edn-bridge-messages--senders)))))
    (and (stringp sender)
         (not (string-blank-p sender))
         (truncate-string-to-width (edn-bridge-visible-label sender)
                                   60 nil nil "…"))))

(defun edn-bridge-messages-note-sender (entry sender)
  "Note that the message of ENTRY was sent by SENDER."
  (unless edn-bridge-messages--senders
    (setq edn-bridge-messages--senders (make-hash-table :test #'equal)))
  (when (< (hash-table-count edn-bridge-messages--senders) 10000)
    (puthash entry sender edn-bridge-messages--senders)))

(defun edn-bridge-messages--insert-blocks (message)
  "Add the content blocks of MESSAGE of the assistant to the transcript."
  (let ((content (plist-get message :content)))
    (if (stringp content)
        (edn-bridge-messages--insert-answer content (plist-get message :id))
      (seq-do
       (lambda (block)
         (let ((text (plist-get block :text)))
           (pcase (plist-get block :type)
             (:text
              (unless (equal text "")
                (edn-bridge-messages--insert-answer
                 text (plist-get message :id))))
             (:thinking
              (when edn-bridge-messages-show-thinking
                (edn-bridge-messages--insert-thinking
                  text (plist-get block :duration-ms))))
             (:sources
              (edn-bridge-messages--insert-sources
               block (plist-get message :id)))
             (type
              (when-let ((function (edn-bridge-chat-block-handler type)))
                (funcall function block message))))))
       content))))

(defun edn-bridge-messages--show-sources (message entry)
  "Show the sources of MESSAGE, of the journal's ENTRY or nil, below its text."
  (let ((content (plist-get message :content)))
    (unless (stringp content)
      (seq-do (lambda (block)
                (when (eq (plist-get block :type) :sources)
                  (edn-bridge-messages--insert-sources block entry)))
              content))))

(defun edn-bridge-messages--insert-sources (block entry)
  "Add the searches and the numbered pages of BLOCK, of ENTRY or nil."
  (let ((searches (mapconcat #'edn-bridge-visible-label
                             (plist-get block :searches) "; "))
        (seen nil))
    (edn-bridge-messages-as-part entry
      (edn-bridge-transcript-add
        (edn-bridge-transcript-fresh-line)
        (unless (equal searches "")
          (insert (propertize (concat "Searched the web: " searches)
                              'face 'edn-bridge-chat-notice)
                  "\n"))
        (seq-do
         (lambda (source)
           (let ((url (plist-get source :url))
                 (title (plist-get source :title)))
             (when (and (stringp url)
                        (string-match-p "\\`https?://" url)
                        (not (member url seen)))
               (push url seen)
               (insert (format "%d. " (length seen)))
               (insert-text-button
                (edn-bridge-visible-label
                 (if (and (stringp title) (not (equal title ""))) title url))
                'face 'edn-bridge-markdown-link 'follow-link t
                'help-echo (edn-bridge-visible-label url)
                'action (lambda (_button) (browse-url url)))
               (insert "\n"))))
         (plist-get block :sources))))))

(defun edn-bridge-messages--insert-text (title face text entry &optional kind)
  "Add a message of TEXT under TITLE in FACE, of the journal's ENTRY or nil.
KIND is that of its heading."
  (edn-bridge-messages--insert-below
   (lambda () (edn-bridge-chat-insert-heading title face kind))
   text entry))

(defun edn-bridge-messages--insert-answer (text entry)
  "Add TEXT of the assistant, of the journal's ENTRY or nil."
  (edn-bridge-messages--insert-below #'edn-bridge-chat-insert-answer-heading
                                     text entry))

(defun edn-bridge-messages--insert-below (heading text entry)
  "Add a message of TEXT, of the journal's ENTRY or nil.
HEADING is called to insert what stands above it."
  (let ((start (edn-bridge-transcript-end)))
    (edn-bridge-transcript-add
      (funcall heading)
      (let ((from (point)))
        (insert (edn-bridge-visible-break text 0))
        (edn-bridge-markdown-region from (point))
        (goto-char (edn-bridge-transcript-end))
        (edn-bridge-transcript-fresh-line)
        (when entry
          (put-text-property start (point) 'edn-bridge-entry entry))))))

(defun edn-bridge-messages--insert-thinking (text millis)
  "Add TEXT that the model thought to the transcript.
It took so many MILLIS, or nil where that is not known."
  (edn-bridge-chat-heading (edn-bridge-messages--thought
                            (and millis (/ millis 1000.0)))
                           'edn-bridge-messages-thinking)
  (let ((start (edn-bridge-transcript-end)))
    (edn-bridge-transcript-add
      (insert (propertize (edn-bridge-visible-break text 0)
                          'face 'edn-bridge-messages-thinking))
      (edn-bridge-transcript-fresh-line))
    (edn-bridge-messages--make-foldable start (edn-bridge-transcript-end))))

;;;; Earlier messages

(defun edn-bridge-messages--set-more (more)
  "Have a button for earlier messages at the top if MORE, else none."
  (when edn-bridge-messages--more
    (edn-bridge-transcript-edit
      (goto-char (point-min))
      (delete-region (point) (line-beginning-position 2))))
  (setq edn-bridge-messages--more more)
  (when more
    (edn-bridge-transcript-at-top
      (edn-bridge-transcript-add
        (edn-bridge-chat-insert-button "Earlier messages"
                                       #'edn-bridge-messages-show-earlier)
        (insert "\n")))))

(defun edn-bridge-messages-show-earlier ()
  "Show earlier messages above the visible ones."
  (interactive nil edn-bridge-chat-mode)
  (let ((conn (edn-bridge-chat-current))
        (oldest edn-bridge-messages--oldest))
    (unless edn-bridge-messages--more
      (user-error "There are no earlier messages"))
    (edn-bridge-rpc-request
     conn "get_messages" (list :before oldest :limit edn-bridge-chat-page)
     :on-success
     (lambda (data)
       (edn-bridge-chat-with-buffer conn
         ;; The button may have been pushed twice.
         (when (equal oldest edn-bridge-messages--oldest)
           (edn-bridge-messages--set-more nil)
           (let ((below (copy-marker (point-min) t)))
             (edn-bridge-transcript-at-top
               (edn-bridge-messages--insert-messages
                (plist-get data :messages) (plist-get data :interrupted))
               (edn-bridge-transcript-add
                 (edn-bridge-transcript-fresh-line 'blank)))
             (edn-bridge-messages--join-turn below)
             (set-marker below nil))
           (edn-bridge-messages--set-more
            (edn-bridge-edn-true-p (plist-get data :more)))))))))

(defun edn-bridge-messages--join-turn (place)
  "Delete the heading at PLACE if it is that of a turn that began above."
  (edn-bridge-transcript-edit
    (goto-char place)
    (when (and (eq (get-text-property (point) 'edn-bridge-heading) 'assistant)
               (edn-bridge-chat-answer-headed-p))
      (let ((inhibit-field-text-motion t))
        (delete-region (point) (line-beginning-position 2))))))

;;;; Registering

(defun edn-bridge-messages--setup ()
  "Have `imenu' go to what the user said in this chat, and markup hidden."
  (edn-bridge-markdown-setup)
  (add-to-invisibility-spec 'edn-bridge-thinking)
  (setq-local imenu-create-index-function #'edn-bridge-messages--index
              imenu-auto-rescan t))

(defun edn-bridge-messages--index ()
  "Return what was said in this chat, for `imenu': first lines and places."
  (let ((index nil)
        (match nil))
    (save-excursion
      (goto-char (point-min))
      (while (setq match (text-property-search-forward
                          'edn-bridge-heading 'said t))
        (let ((inhibit-field-text-motion t))
          (push (cons (truncate-string-to-width
                       (buffer-substring-no-properties
                        (line-beginning-position 2) (line-end-position 2))
                       80 nil nil "…")
                      (copy-marker (prop-match-beginning match)))
                index))))
    (nreverse index)))

(add-hook 'edn-bridge-chat-mode-hook #'edn-bridge-messages--setup)

(defun edn-bridge-messages--settle (end)
  "Show what was collected; with END, end the message that streams in."
  (edn-bridge-messages--flush)
  (when end
    (edn-bridge-messages--end-stream)))

(defun edn-bridge-messages--on-text (data)
  "Collect DATA of `assistant/delta'."
  (edn-bridge-messages--on-delta 'text data))

(defun edn-bridge-messages--on-thinking (data)
  "Collect DATA of `assistant/thinking-delta'."
  (edn-bridge-messages--on-delta 'thinking data))

(defun edn-bridge-messages--on-turn-end ()
  "Note that no message is coming any more."
  (setq edn-bridge-messages--shown nil)
  (edn-bridge-messages--forget-pieces)
  ;; Who comes back finds out by this that the end was missed.
  (unless edn-bridge-chat-following
    (setq edn-bridge-messages--at nil)))

(setq edn-bridge-chat--in-answer-function #'edn-bridge-messages-in-answer)
(add-hook 'edn-bridge-chat-settle-functions #'edn-bridge-messages--settle)
(add-hook 'edn-bridge-chat-turn-end-hook #'edn-bridge-messages--on-turn-end)
(edn-bridge-chat-handle "assistant/delta"
                        #'edn-bridge-messages--on-text 'collected)
(edn-bridge-chat-handle "assistant/thinking-delta"
                        #'edn-bridge-messages--on-thinking 'collected)
(edn-bridge-chat-handle "assistant/message" #'edn-bridge-messages--on-message)
(edn-bridge-chat-handle "turn/retry" #'edn-bridge-messages--on-retry)
(edn-bridge-chat-handle "messages/replaced" #'edn-bridge-messages--on-replaced)
(edn-bridge-chat-handle "session/rehydrated" #'edn-bridge-messages--on-rehydrated)

(let ((map edn-bridge-chat-mode-map))
  (define-key map (kbd "C-c C-v") #'edn-bridge-markdown-toggle-markup)
  (define-key map (kbd "C-c M-w") #'edn-bridge-markdown-copy-code))

(provide 'edn-bridge-messages)

;;; edn-bridge-messages.el ends here
